"""Programs of the CPU engine: the instruction set, and functions that write a model's layers in it."""
