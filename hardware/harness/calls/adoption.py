"""Copies the reference's weights into a candidate's module, by name or by order; otherwise it keeps its own.

KernelBench makes reference and candidate under the same seed and copies nothing, so published solutions may name their
parameters as they like. Here weights are copied where it is clear which is which: by name, else in the order in which
the modules register them if the shapes agree all along. Else the module keeps what it made under the reference's seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ....schemas import FROM_SEED

NAMES, ORDER = "names", "order"

_copy = torch.Tensor.copy_


@dataclass(frozen=True)
class Adoption:
    """What became of the reference's weights."""

    how: str = NAMES
    """:data:`NAMES`, :data:`ORDER` or :data:`FROM_SEED`."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The module's names by the reference's, where they differ."""

    def name(self, reference_name: str) -> str:
        """What the module calls it."""
        return self.renamed.get(reference_name, reference_name)


def adopt(model: torch.nn.Module, weights: Mapping[str, Any]) -> Adoption:
    """Give ``model``, which was made under the reference's seed, the reference's ``weights``: its ``state_dict``."""
    own = model.state_dict()
    if own.keys() == weights.keys() and all(_fits(own[name], weights[name]) for name in own):
        model.load_state_dict(weights, strict=True)
        return Adoption()
    pairs = list(zip(weights.items(), own.items(), strict=False))
    if len(own) != len(weights) or not all(_fits(mine, given) for (_, given), (_, mine) in pairs):
        return Adoption(FROM_SEED)
    for (_, given), (_, mine) in pairs:
        if isinstance(mine, torch.Tensor):
            _copy(mine.detach(), given)
    return Adoption(ORDER, {reference: name for (reference, _), (name, _) in pairs if reference != name})


def _fits(own: Any, given: Any) -> bool:
    """Whether one can take the place of the other; what is no tensor is left to ``load_state_dict``."""
    if not isinstance(own, torch.Tensor) or not isinstance(given, torch.Tensor):
        return type(own) is type(given)
    if isinstance(own, torch.nn.parameter.UninitializedTensorMixin):
        return True
    return bool(own.shape == given.shape and own.dtype == given.dtype)
