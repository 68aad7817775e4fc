"""Building blocks of the models, which take plain numbers and tensors.

Takes tensors with rows first and gives tensors, with explicit states. A step at a time gives what
the whole gives (tests/architectures/test_contract.py), and fused kernels what PyTorch's operations
give (tests/layers). Imports no architecture and no configuration.
"""
