"""A micro-batch on Spark: from arrival through stages to one commit."""
