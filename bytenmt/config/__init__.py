"""The configuration of a run: its schema, its bounds, and how it is read.

Takes TOML files and settings `key=value`, and gives a frozen Config of msgspec structs, or one line
that names the key (tests/config/test_fields.py). Imports the architectures' configurations, neither
PyTorch nor NumPy (tests/package/test_imports.py).
"""
