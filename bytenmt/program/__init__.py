"""Programs of the CPU engine: the instruction set, and functions that write layers in it.

Takes shapes alone, and gives instructions over registers, which engine, file check and costs read.
A program computes what its module computes (tests/architectures/test_contract.py,
decoding/program_check.py). Imports constants only.
"""
