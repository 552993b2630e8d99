"""The recorder: a process that polls clusters, and the spool through which Spark's streams get the
polls.
"""
