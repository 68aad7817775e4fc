"""A run from its files to its end."""
