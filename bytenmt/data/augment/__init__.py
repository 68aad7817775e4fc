"""Augmentation of training pairs: noise, copying, placeholders, letter case and empty sources."""
