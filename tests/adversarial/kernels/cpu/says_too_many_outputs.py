"""Answers: a list of a million things that are no tensors."""


def kernel(x, w):
    return [object()] * 1_000_000
