"""What must stand in a translation, and what must not: read from the source, independent of engines."""
