"""The decode engine for CPUs: packed weights, vector kernels and the machine that runs programs over them."""
