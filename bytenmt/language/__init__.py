"""Byte language models: bits of every byte, baselines and generation."""
