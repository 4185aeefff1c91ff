"""What users of Spark hold: session, queries, runs and their results."""
