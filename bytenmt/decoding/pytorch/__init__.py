"""The PyTorch engine: decoding on any device, and the reference for the CPU engine.

Takes modules in evaluation mode and requests, and gives hypotheses, step by step or by a CUDA graph
(tests/decoding/test_pytorch_engines.py). Imports PyTorch, architectures and the search.
"""
