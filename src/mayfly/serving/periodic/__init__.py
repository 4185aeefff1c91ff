"""Served queries of a pipeline: its closed panes in memory, answered by deadline."""
