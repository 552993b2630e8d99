"""A report: one page about a window of one cluster's history, which loads nothing."""
