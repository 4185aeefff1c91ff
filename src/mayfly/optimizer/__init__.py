"""Rewrites, costs and plan choice."""
