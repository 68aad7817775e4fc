"""Documents: what is text in a file of a known format, and the file again with that text translated."""
