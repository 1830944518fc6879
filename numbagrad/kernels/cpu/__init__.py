"""CPU kernels: Numba compiles them, LLVM loads them, worker threads share them."""
