"""The library for programs: runs and language models as values. docs/python-api.md has examples."""
