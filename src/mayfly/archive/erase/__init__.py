"""Bytes of expired rows: that they are gone in time, wherever they lie."""
