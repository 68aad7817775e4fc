"""Scores of translations, and which source character is meant."""
