"""C++ candidates: kernels as text, their tunables, and the Python around them."""
