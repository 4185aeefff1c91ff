"""Programs: what runs, how it is cut into stages, its clocks, and the in-process runner."""
