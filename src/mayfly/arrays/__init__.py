"""Arrays: Arrow and its functions, imported when they are used; sorting; compiled loops."""
