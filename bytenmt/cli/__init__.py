"""Commands: each parses its options, calls one function and prints the result.

Takes arguments, files and standard input; writes texts to standard output, messages to standard
error, and an exit code. A mistake of a user is one line (tests/cli/test_commands.py). Imports
everything below; nothing imports it.
"""
