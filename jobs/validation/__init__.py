"""Validation of new rows by Great Expectations."""
