"""A step of the search, compiled."""
