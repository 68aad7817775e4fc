"""Spans of a line that a translation keeps as they are: placeholders, tags, URLs, addresses, numbers."""
