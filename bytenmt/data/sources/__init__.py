"""Training pairs that do not lie in text files: a stream that need not end, a data set."""
