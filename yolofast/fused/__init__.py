"""Blocks of layers as few kernels, for training on a GPU without waiting for a compiler."""
