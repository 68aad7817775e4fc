"""The commands: parse, call one function, print."""
