"""The plan of a query: types, expressions, windows and logical operators."""
