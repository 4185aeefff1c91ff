"""Scalar functions, operators and casts over Arrow columns, with the meaning Spark gives them."""
