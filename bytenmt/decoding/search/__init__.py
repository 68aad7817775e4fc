"""The search of all engines: plain Python over NumPy arrays, which Numba compiles."""
