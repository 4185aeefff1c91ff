"""EXPLAIN: the program that would run, with the estimates of the optimizer beside it."""
