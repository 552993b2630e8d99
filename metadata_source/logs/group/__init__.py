"""The group coordinators' own log, `__consumer_offsets`, as a Spark data source."""
