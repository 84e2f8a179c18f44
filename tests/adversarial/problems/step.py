"""An optimizer's step: it returns nothing, what it writes is the answer."""

import torch

shapes = {"main": dict(count=20000), "ragged": dict(count=333)}


def inputs(generator, count):
    parameter, gradient, first = (torch.randn(count, generator=generator) for _ in range(3))
    return [parameter, gradient, first, torch.rand(count, generator=generator)]


def reference(parameter, gradient, first, second):
    first.mul_(0.9).add_(gradient, alpha=0.1)
    second.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
    parameter.addcdiv_(first, second.sqrt().add_(1e-6), value=-1e-3)
