"""Kernels of the CPU engine: written in Python, compiled by LLVM.

Most are Python that Numba compiles. The innermost loops emit LLVM's vector instructions by the
functions of simd.py. Together they execute the instructions of programs (program/).
"""
