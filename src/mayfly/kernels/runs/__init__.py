"""Runs of operator state: which rows of a window are stored together, and when they go."""
