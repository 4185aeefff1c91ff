"""The stored side of a pipeline: operator state, logs, formats and how they change."""
