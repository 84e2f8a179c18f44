"""From a captured graph to loops: rewrites, partition into kernels, and the expression of one element of each node."""
