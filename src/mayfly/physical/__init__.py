"""One physical plan: a logical plan becomes a program, its stages and places; EXPLAIN shows it."""
