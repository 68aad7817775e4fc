"""The library for programs: runs as values. docs/python-api.md has examples.

Takes paths, texts as str or bytes, and settings by name; returns a Run, an Evaluation or the texts.
What a command refuses is refused here, with the same message (tests/api/test_examples.py).
"""
