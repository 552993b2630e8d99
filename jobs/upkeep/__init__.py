"""Keeping a lake small: retention, compaction, and removal of files that nothing refers to."""
