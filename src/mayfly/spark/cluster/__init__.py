"""Starting Spark: local sessions, worker processes, and why a start failed."""
