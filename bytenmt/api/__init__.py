"""The library for programs: runs and language models as values. docs/python-api.md has examples.

Takes paths, texts as str or bytes, and settings by name; returns a Run, an Evaluation, a LanguageModel or the
texts. What a command refuses is refused here, with the same message (tests/api/test_examples.py). Imports all
but the doors (cli, serve, datasets) and documents. Should shrink to 300 lines.
"""
