"""Six architectures, a folder each: configuration, PyTorch module and program for the CPU engine.

Takes batches of bytes and their lengths and gives logits, by `encode`, `start` and `forward`, with
states as NamedTuples of tensors (base.py). Any cut of a text into calls gives the same logits as
the whole (tests/architectures/test_contract.py), and these are the paper's
(tests/architectures/test_reference.py). Imports layers and programs; no architecture imports
another.
"""
