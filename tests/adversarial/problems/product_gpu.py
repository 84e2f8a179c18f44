"""A product in fp32: an accelerator's matrix units take less than that."""

import torch

shapes = {"main": dict(size=2048), "ragged": dict(size=96)}


def inputs(generator, size):
    return [torch.randn(size, size, generator=generator), torch.randn(size, size, generator=generator)]


def reference(a, b):
    return a @ b
