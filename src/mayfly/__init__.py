"""Mayfly: continuous queries and archives over data that expires."""

__version__ = "0.1.0"
