"""The run folder and the weights files in it."""
