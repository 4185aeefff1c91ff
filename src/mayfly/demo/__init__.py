"""The demo: a window join that is killed in the middle and continues without a trace."""
