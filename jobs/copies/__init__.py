"""Lakes, or the history of one cluster, as Parquet with a manifest: out of a lake and into one."""
