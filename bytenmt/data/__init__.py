"""Text files to batches of bytes."""
