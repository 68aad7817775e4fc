"""Documents: extract the text of a file of a known format, and put translations back into the file."""
