"""Additive attention: Bahdanau et al. 2015."""
