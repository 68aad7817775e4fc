"""The CPU engine: decoding without PyTorch, by packed weights and one compiled function."""
