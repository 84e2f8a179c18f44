"""Error bounds of a problem's results, and the errors that they permit in the values before."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ...hardware.harness.tensors.bounds import Tolerance, bound_for
from ...hardware.machine.work import operands
from ...schemas import Arg, Graph, Node, ProblemFacts, Ref
from .build import is_float

_MEAN_AND_VARIANCE = "aten.var_mean.correction"


@dataclass(frozen=True)
class ErrorBounds:
    """Relative errors, in the judge's measure."""

    least: float = math.inf
    """Of all results."""
    by_result: Mapping[str, float] = field(default_factory=dict)
    """As :attr:`ProblemFacts.error_bounds`; empty: every result's is the least."""
    tf32_convolutions: bool = False
    """Whether convolutions may be in TF32, whatever the bounds of what is computed from them."""

    @classmethod
    def of_problem(cls, facts: ProblemFacts) -> "ErrorBounds":
        """As validation measured them, else the least for the problem's precision."""
        if facts.error_bound is not None:
            # A second graph's results have names of their own.
            by_result = facts.error_bounds if facts.backward_graph is None else {}
            return cls(facts.error_bound, by_result, facts.tf32_convolutions)
        least = bound_for(facts.dtype, 0.0, float64=facts.float64_oracle, tolerance=Tolerance())
        return cls(least, tf32_convolutions=facts.tf32_convolutions)

    def by_value(self, graph: Graph) -> dict[str, float]:
        """By node of ``graph`` the least of the results that it is computed for; empty where there is only one bound.

        What is wrong in a value is wrong in every result behind it: a first convolution in the statistics of the norm
        that follows, and in what the whole network comes to. Of mean and variance the less exact one tells how exact
        the numbers are that both are taken of: a running variance of 1 hides what is wrong in small ones.
        """
        if not self.by_result:
            return {}
        by_value = {node.name: math.inf for node in graph.nodes}
        of_parts: dict[str, float] = {}
        nodes = {node.name: node for node in graph.nodes}
        for node in reversed(graph.nodes):
            if node.op == "output":
                for name, bound in self._of_results(node, nodes):
                    by_value[name] = min(by_value[name], bound)
                continue
            bound = of_parts.get(node.name, by_value[node.name])
            for name in operands(node):
                by_value[name] = min(by_value[name], bound)
                if math.isfinite(bound) and nodes[name].target == _MEAN_AND_VARIANCE:
                    of_parts[name] = max(of_parts.get(name, 0.0), bound)
        return by_value

    def most(self, graph: Graph, targets: Collection[str]) -> float:
        """What the value of one of ``targets`` has to spare that has most; the least of all where that is not known."""
        by_value = self.by_value(graph)
        return max((by_value.get(n.name, self.least) for n in graph.nodes if n.target in targets), default=self.least)

    def _of_results(self, output: Node, nodes: Mapping[str, Node]) -> Iterator[tuple[str, float]]:
        results: list[tuple[str, Arg]] = [(f"output_{index}", arg) for index, arg in enumerate(output.args)]
        results += [(nodes[name].target or name, arg) for name, arg in output.kwargs.items()]
        for name, arg in results:
            if isinstance(arg, Ref) and is_float(nodes[arg.name].values[0].dtype):
                yield arg.name, self.by_result.get(name, self.least)


NO_BOUNDS = ErrorBounds()
"""Nothing is known of the results: everything is accurate enough."""
