"""Archives on Spark: updates as jobs, versions as DataFrames, streams as feeds."""
