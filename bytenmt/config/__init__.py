"""What can be set, and the sizes that have names."""
