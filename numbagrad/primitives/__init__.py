"""Primitives: value, shape rule, derivative and kernels of every operation, one block each."""
