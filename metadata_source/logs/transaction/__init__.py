"""The transaction coordinators' log, `__transaction_state`, as a Spark data source."""
