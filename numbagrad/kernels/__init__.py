"""Kernels, one folder a device."""
