"""Kernels for NVIDIA GPUs: generated `@cuda.jit` functions and the host code that launches them."""
