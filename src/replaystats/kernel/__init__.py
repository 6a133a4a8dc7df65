"""Kernel ridge regression: kernels, fits on subsets, on leaves of trees, on a device."""
