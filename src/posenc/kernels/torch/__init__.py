"""Kernels on torch tensors: launches, operators, gradients."""
