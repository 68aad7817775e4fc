"""Scores of translations, likelihood and character alignment."""
