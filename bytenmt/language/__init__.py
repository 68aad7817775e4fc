"""Byte language models: bits of every byte, what they are held against, and text drawn from them."""
