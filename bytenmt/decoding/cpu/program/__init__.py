"""A model's decode step as a program over packed weights."""
