"""The PyTorch engine: decoding on any device, and the reference for the CPU engine."""
