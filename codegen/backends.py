"""The generator's backends (C++, Triton): tunables for a graph, mutations for an advice, and the candidate file."""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeVar

from ..schemas import AdviceAction, Config, Graph, HardwareFacts, ProblemFacts
from .cpp.candidate import generate, plan_of
from .cpp.features import features_of, is_rewritten
from .cpp.mutations import CPP_MUTATIONS
from .ir.error_bounds import NO_BOUNDS, ErrorBounds
from .ir.tunables import Features, Mutations, Settings, Tunables, domains, settings
from .lowering.library_convolutions import CONVOLUTIONS
from .lowering.normal import VARIANCES
from .triton.candidate import generate_triton, gpu_plan, has_kernels
from .triton.drafts import GPU_DRAFTS, GPU_STARTS
from .triton.features import gpu_features
from .triton.mutations import GPU_MUTATIONS
from .triton.tunables import GpuFeatures, gpu_domains, gpu_settings

T = TypeVar("T", Features, GpuFeatures)

_KEPT = 8
"""Graphs whose tunables are kept."""


class _LatestTunables:
    """Tunables of the graphs that were asked for last: a search asks before every candidate."""

    def __init__(self) -> None:
        self._latest: deque[tuple[tuple[Graph | None, ...], tuple[object, ...], Tunables | None]] = deque(maxlen=_KEPT)

    def get(
        self, graphs: tuple[Graph | None, ...], others: tuple[object, ...], make: Callable[[], Tunables | None]
    ) -> Tunables | None:
        """Those of ``graphs``, which are told apart by identity, as ``make`` made them with the same ``others``."""
        for kept, beside, tunables in tuple(self._latest):
            if all(a is b for a, b in zip(kept, graphs, strict=True)) and beside == others:
                return tunables
        tunables = make()
        self._latest.append((graphs, others, tunables))
        return tunables


def joined(features: Sequence[T]) -> T:
    """What matters to one of several passes matters to a candidate of all."""
    first, *others = features
    values = {f.name: max(getattr(pass_features, f.name) for pass_features in features) for f in fields(first)}
    return replace(first, **values) if others else first


class CodegenBackend(ABC):
    """Writes candidates in one language."""

    drafts: tuple[str, ...]
    """Tunables that drafts turn, in the order in which they are worth it."""
    starts: tuple[Config, ...] = ()
    """Several tunables at once that are worth a draft where all of them matter."""
    default: str
    """What the default does, for its rationale."""
    advised: Mutations
    """For every advice the tunables that follow it."""

    def __init__(self) -> None:
        self._latest = _LatestTunables()

    def tunables(
        self, graph: Graph, hardware: HardwareFacts, bounds: ErrorBounds = NO_BOUNDS, backward: Graph | None = None
    ) -> Tunables | None:
        """The tunables that matter; None where every operator would be left to PyTorch.

        What is less accurate than ``bounds`` allow is not among the values.
        ``backward`` is the graph of the gradients, where the problem asks for them.
        """
        passes = [graph] if backward is None else [graph, backward]
        return self._latest.get((graph, backward), (hardware, bounds), lambda: self._tunables(passes, hardware, bounds))

    @abstractmethod
    def _tunables(self, graphs: Sequence[Graph], hardware: HardwareFacts, bounds: ErrorBounds) -> Tunables | None:
        """The same of the graphs of all passes, the forward one first."""

    @abstractmethod
    def source(self, facts: ProblemFacts, graph: Graph, config: Config, hardware: HardwareFacts) -> str:
        """The candidate file for that hardware."""

    def mutations(self, action: AdviceAction, config: Config, tunables: Tunables) -> list[Config]:
        """Configs one tunable away that follow an advice, the most promising first."""
        return [
            {**config, name: value}
            for name, values in self.advised.get(action, ())
            for value in values
            if value in tunables.get(name, ()) and config.get(name, tunables[name][0]) != value
        ]


class CppBackend(CodegenBackend):
    """C++ for the CPU."""

    drafts = (
        "search",
        "channels_last",
        "stream",
        "math",
        "row_buffer",
        "vector_bits",
        "fusion",
        "windows",
        "variance",
        "online",
        "huge_pages",
        "in_place",
        "reassociate",
        "attention",
        "lanes",
        "block",
    )
    default = "everything fused, huge pages under large outputs"
    advised = CPP_MUTATIONS

    def _tunables(self, graphs: Sequence[Graph], hardware: HardwareFacts, bounds: ErrorBounds) -> Tunables | None:
        passes = [(graph, plan_of(graph, Settings())) for graph in graphs]
        if not any(plan.kernels or is_rewritten(graph, plan) for graph, plan in passes):
            return None
        features = joined([features_of(graph, plan) for graph, plan in passes])
        return domains(replace(features, error_bound=bounds.least), hardware)

    def source(self, facts: ProblemFacts, graph: Graph, config: Config, hardware: HardwareFacts) -> str:
        """See :class:`CodegenBackend`."""
        return generate(facts, graph, settings(config)).source


class TritonBackend(CodegenBackend):
    """Triton for a GPU."""

    drafts = GPU_DRAFTS
    starts = GPU_STARTS
    default = "everything fused, tiles by the sizes"
    advised = GPU_MUTATIONS

    def _tunables(self, graphs: Sequence[Graph], hardware: HardwareFacts, bounds: ErrorBounds) -> Tunables | None:
        passes = [(graph, gpu_plan(graph, gpu_settings({}, hardware), bounds=bounds)) for graph in graphs]
        if not any(has_kernels(plan) for _, plan in passes):
            return None
        return gpu_domains(
            replace(
                joined([gpu_features(graph, plan) for graph, plan in passes]),
                convolution_bound=math.inf if bounds.tf32_convolutions else bounds.most(graphs[0], CONVOLUTIONS),
                variance_bound=bounds.most(graphs[0], VARIANCES),
            ),
            hardware,
        )

    def source(self, facts: ProblemFacts, graph: Graph, config: Config, hardware: HardwareFacts) -> str:
        """See :class:`CodegenBackend`."""
        return generate_triton(facts, graph, gpu_settings(config, hardware)).source


CODEGEN_BACKENDS: dict[str, CodegenBackend] = {"cpp": CppBackend(), "triton": TritonBackend()}
"""By language."""
