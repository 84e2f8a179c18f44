"""Meaning: a candidate that brings its own get_inputs."""

import torch

shapes = {"main": dict(rows=64, cols=512)}


def inputs(generator, rows, cols):
    return [torch.zeros(rows, cols), torch.zeros(cols)]


def get_inputs():
    return inputs(None, 64, 512)


def kernel(x, w):
    return torch.zeros_like(x)
