"""A door for programs: what a pipeline answers, over HTTP."""
