"""Archives: rows with lifetimes kept on disk, refreshed by updates, probed and scanned."""
