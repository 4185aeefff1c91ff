"""Loops over arrays: compiled once, kept on disk where a folder is writable."""
