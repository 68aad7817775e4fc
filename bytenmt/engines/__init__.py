"""Engines: ways to decode sentences side by side (decoding.Engine). The loop drives one, knows no model."""
