"""Python code of candidates that all languages share: parameters, and functions that autograd can differentiate."""
