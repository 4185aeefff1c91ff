"""Sources, sinks, and the Python code of users that they name."""
