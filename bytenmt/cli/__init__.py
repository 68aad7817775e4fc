"""Commands: each parses its options, calls one function and prints the result."""
