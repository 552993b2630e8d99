"""Pages over a lake: `kafka-metadata-history serve`. Read only; nothing here knows a table."""
