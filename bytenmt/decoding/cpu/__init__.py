"""Decoding on a CPU without PyTorch: packed weights, one compiled function."""
