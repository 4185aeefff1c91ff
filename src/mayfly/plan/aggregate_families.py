"""Aggregates that are looked at alike in several places, by name."""

from __future__ import annotations

SPREADS = ("var_samp", "stddev_samp", "var_pop", "stddev_pop")
"""Of which sums and sums of squares tell all."""
COUNTED = ("median", "quantile", "percentile", "mode", "top")
"""Of which the values of a group tell all, each with how often it is there."""
