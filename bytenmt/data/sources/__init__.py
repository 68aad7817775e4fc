"""Training pairs from sources that are not text files: an endless stream, a Parquet file."""
