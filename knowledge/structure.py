"""How alike two problems are by their captured graphs: what decides which kernels may seed a search."""

from collections import Counter

from ..schemas import Arg, Graph, Items, Node, ProblemFacts, Ref, Schema
from .similarity import bare_name, closeness, is_layout, sizes_of

SHARES = {"structure": 0.45, "shapes": 0.2, "platform": 0.2, "dtype": 0.15}
"""What each part adds to the whole; they sum to 1."""


class Structure(Schema, frozen=True, kw_only=True):
    """What of a problem is compared."""

    operators: dict[str, int]
    """How often each ATen operator occurs, without overloads and mere changes of layout."""
    flows: dict[str, int]
    """How often one feeds another, ``mean>rsqrt``; layout operators between them are looked through."""
    ranks: dict[str, int]
    """How many inputs have so many dimensions at the main shape."""
    sizes: tuple[int, ...]
    """Bytes read, bytes written, operations at the main shape."""
    dtype: str
    platform: str


class Likeness(Schema, frozen=True, kw_only=True):
    """Two problems compared: the parts and the whole, each in [0, 1]."""

    structure: float
    shapes: float
    platform: float
    dtype: float

    @property
    def whole(self) -> float:
        """The parts, weighed by :data:`SHARES`."""
        return sum(share * float(getattr(self, part)) for part, share in SHARES.items())


def structure_of(facts: ProblemFacts, platform: str) -> Structure:
    """What is compared of a validated problem."""
    operators, flows = _of_graph(facts.graph) if facts.graph else (Counter[str](), Counter[str]())
    if not operators:
        operators = Counter(bare_name(name) for name in facts.operators if not is_layout(name))
    inputs = facts.shapes[0].inputs if facts.shapes else ()
    return Structure(
        operators=dict(operators),
        flows=dict(flows),
        ranks=dict(Counter(str(len(fact.shape)) for fact in inputs if fact.kind == "tensor")),
        sizes=sizes_of(facts),
        dtype=facts.dtype,
        platform=platform,
    )


def likeness(a: Structure, b: Structure) -> Likeness:
    """Compare two problems; symmetric, 1 in every part for the same (docs/seeding.md).

    - structure: mean of the multiset Jaccard indices of operators and of flows; of the operators alone where a graph
      is missing or has no flow.
    - shapes: mean of the closeness of the sizes (1 minus the mean of |ln(x / y)| / ln(1000), at least 0) and of the
      multiset Jaccard index of the inputs' ranks.
    - platform and dtype: the same or not.
    """
    parts = [_jaccard(a.operators, b.operators)]
    if a.flows and b.flows:
        parts.append(_jaccard(a.flows, b.flows))
    return Likeness(
        structure=sum(parts) / len(parts),
        shapes=(closeness(a.sizes, b.sizes) + _jaccard(a.ranks, b.ranks)) / 2,
        platform=float(a.platform == b.platform),
        dtype=float(a.dtype == b.dtype),
    )


def _of_graph(graph: Graph) -> tuple[Counter[str], Counter[str]]:
    operators, flows = Counter[str](), Counter[str]()
    sources: dict[str, frozenset[str]] = {}
    for node in graph.nodes:
        into = frozenset[str]().union(*(sources.get(name, frozenset()) for name in _reads(node)))
        if node.op != "call":
            sources[node.name] = frozenset()
        elif is_layout(node.target):
            sources[node.name] = into
        else:
            name = bare_name(node.target)
            operators[name] += 1
            flows.update(f"{before}>{name}" for before in into)
            sources[node.name] = frozenset({name})
    return operators, flows


def _reads(node: Node) -> list[str]:
    names: list[str] = []

    def look(value: Arg) -> None:
        if isinstance(value, Ref):
            names.append(value.name)
        elif isinstance(value, Items):
            for item in value.items:
                look(item)

    for value in (*node.args, *node.kwargs.values()):
        look(value)
    return names


def _jaccard(a: dict[str, int], b: dict[str, int]) -> float:
    """Of multisets: shared over all."""
    either = sum((Counter(a) | Counter(b)).values())
    return sum((Counter(a) & Counter(b)).values()) / either if either else 0.0
