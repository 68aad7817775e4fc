"""Constraints of a translation: spans and terms of the source that it must, or must not, contain."""
