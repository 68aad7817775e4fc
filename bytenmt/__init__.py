"""bytenmt: character-level translation on raw UTF-8 bytes."""

__version__ = "0.1.0"
