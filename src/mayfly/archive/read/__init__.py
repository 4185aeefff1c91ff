"""Reading: questions, the version that answers them, its files."""
