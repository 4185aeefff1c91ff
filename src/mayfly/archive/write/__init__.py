"""Writing: planning the job of an update, staging rows, sorted parts."""
