"""Tensors on their way between processes and devices, and how they are compared. Children's side."""
