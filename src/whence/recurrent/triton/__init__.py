"""Kernels for GPUs, in Triton, which comes with PyTorch where there is a GPU; nothing here is imported without it."""
