"""The commands that measure, compare and draw models."""
