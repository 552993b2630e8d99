"""The folds of incidents: rows of gold of all sources -> incidents, their links, and events."""
