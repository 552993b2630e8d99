"""The recorder: a process that polls clusters, and the spool from which Spark's streams read."""
