"""Running queries in this process, and the rules of time that every run follows."""
