"""The Triton kernels and their launches."""
