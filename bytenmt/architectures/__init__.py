"""One folder an architecture: its configuration, its PyTorch module and its program for the CPU engine."""
