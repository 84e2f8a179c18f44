"""What generated kernels are made of: index polynomials, scalar expressions, loops. Language-neutral."""
