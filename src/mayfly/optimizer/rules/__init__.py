"""The rewrites, one in each file; ``optimizer/optimize.py`` has their order."""
