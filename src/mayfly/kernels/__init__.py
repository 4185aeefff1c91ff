"""Kernels: pure functions over Arrow columns with lifetimes."""
