"""Other systems doing the same job, each in its best configuration we know."""
