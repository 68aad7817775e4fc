"""The configuration of a run: its schema, its bounds, and how it is read."""
