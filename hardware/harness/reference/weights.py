"""Weights with which a network's answer depends on its input.

Layers as files initialise them shrink what comes from the input, while biases keep their size: behind twenty of them
the answer is that of the last biases, and a constant passes for it. Here every linear layer and convolution is scaled
until its output, without the bias, has variance 1 (Mishkin, Matas: All You Need Is a Good Init, ICLR 2016), by powers
of two: the digits of a weight stay, and every process that is given the exponents has the same weights.
"""

import math
from typing import Any

import torch

from ..calls.answering import Refused, attempt
from .effects import copies
from .problem import ReferenceProblem

LAYERS = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
MOST = 24
"""Binary orders of magnitude by which a weight is scaled at most."""


def variance_exponents(reference: ReferenceProblem, inputs: list[Any]) -> dict[str, int]:
    """Exponents of two by the name of the weight; empty where no layer of the kind is called, or none needs it.

    One call of the forward pass on ``inputs``, which stay as they are; the module is as at its start afterwards.
    """
    module = reference.module
    if module is None:
        return {}
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    exponents: dict[str, int] = {}

    def scale(layer: Any, arguments: Any, output: Any) -> Any:
        """What the layer would return with a scaled weight: the layers behind it are measured on that."""
        name = names.get(id(layer.weight))
        if name is None or not isinstance(output, torch.Tensor) or not output.is_floating_point():
            return output
        bias = 0.0 if layer.bias is None else layer.bias.view(-1, *[1] * (layer.weight.dim() - 2))
        signal = output - bias
        if name not in exponents:
            exponents[name] = _exponent(signal)
        return signal * 2.0 ** exponents[name] + bias

    hooks = [layer.register_forward_hook(scale) for layer in module.modules() if isinstance(layer, LAYERS)]
    taken = copies(inputs[:-1] if reference.backward else inputs)
    reference.restart()
    try:
        attempt(lambda: reference.forward(*taken))
    except Refused:
        return {}
    finally:
        for hook in hooks:
            hook.remove()
        reference.restart()
    return {name: exponent for name, exponent in exponents.items() if exponent}


def _exponent(signal: torch.Tensor) -> int:
    rms = float(torch.linalg.vector_norm(signal.float())) / math.sqrt(max(signal.numel(), 1))
    if not 0.0 < rms < math.inf:
        return 0
    return max(-MOST, min(MOST, -round(math.log2(rms))))
