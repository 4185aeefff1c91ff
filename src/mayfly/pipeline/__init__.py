"""What a pipeline is asked to do, by its file and by commands: checked, and no Spark yet."""
