"""Scores and flags of translations, likelihood of texts; comparisons, figures and model cards."""
