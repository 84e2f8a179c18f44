"""PyTorch functions and modules as graphs of ATen operators."""
