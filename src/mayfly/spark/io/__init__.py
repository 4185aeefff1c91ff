"""Sources, sinks and the data source."""
