"""What a pipeline answers, over HTTP: for programs of any language."""
