"""Augmentation of training pairs: noise, copying, sentinels, letter case and empty sources."""
