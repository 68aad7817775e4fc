"""Kernels of the CPU engine: LLVM vector code and compiled Python that execute the instructions of
programs."""
