"""Decoding in plain PyTorch, on any device; the reference."""
