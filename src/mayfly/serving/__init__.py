"""Reading a checkpoint from outside, running or stopped: no Spark, and nothing is written."""
