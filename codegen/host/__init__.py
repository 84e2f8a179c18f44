"""The Python side of candidates that is the same in every language: parameters, and what autograd can follow."""
