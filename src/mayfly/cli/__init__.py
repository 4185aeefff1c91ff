"""The command line."""

from mayfly.cli.app import main

__all__ = ["main"]
