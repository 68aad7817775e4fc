"""Commands that measure, compare and draw models."""
