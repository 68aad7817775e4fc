"""The CPU engine: decoding without PyTorch, by packed weights and one compiled function.

Takes weights files and requests, and gives hypotheses: it executes the programs of the
architectures. Its bits do not depend on threads or batch mates, and its text is PyTorch's
(tests/decoding/test_engines.py, tests/decoding/test_pytorch_engines.py). Imports architectures,
programs and the search.
"""
