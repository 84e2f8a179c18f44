"""Which values of a row a thread keeps in a buffer for later passes, instead of computing them again."""

from dataclasses import dataclass

from ..ir.loops import Kernel
from ..ir.poly import ONE, variable
from ..ir.scalar import Scalar, rewrite

_WORTH = {"costly": 10, "all": 2}
_APART = 10
"""What a load costs whose neighbours in the row are not neighbours in memory, in instructions a lane."""


@dataclass(frozen=True)
class BufferedValue:
    """A value kept for every element of a row."""

    name: str
    value: Scalar
    first: int
    """Pass that computes it."""


def shared_values(kernel: Kernel) -> dict[str, tuple[Scalar, set[int]]]:
    """Values of elements, with the passes that use them, for those used in more than one."""
    inner = {f"i{d}" for d in kernel.inner}
    entries: dict[str, tuple[Scalar, set[int]]] = {}
    roots = [a.body for a in kernel.accumulations.values() if a.level == "row"]
    roots += [s.value for s in kernel.stores.values() if s.level == "element"]
    for root in roots:
        number = kernel.pass_of(root)
        for node in root.walk():
            if node.names & inner and node.op not in ("const", "index", "load"):
                entries.setdefault(node.key, (node, set()))[1].add(number)
    return {key: entry for key, entry in entries.items() if len(entry[1]) > 1}


def kept_values(kernel: Kernel, policy: str) -> list[BufferedValue]:
    """The largest shared values that are worth a buffer under ``policy`` (``none``, ``costly``, ``all``)."""
    if policy == "none" or len(kernel.inner) != 1:
        return []
    shared = shared_values(kernel)
    costs = {key: _cost(node, f"i{kernel.inner[0]}") for key, (node, _) in shared.items()}
    worth = {k: e for k, e in shared.items() if costs[k] >= _WORTH[policy] and e[0].op != "piecewise"}
    covered: set[str] = set()
    for node, passes in worth.values():
        for below in node.walk():
            if below.key != node.key and below.key in worth and worth[below.key][1] <= passes:
                covered.add(below.key)
    chosen = _worth_their_own([e for key, e in worth.items() if key not in covered], costs, _WORTH[policy])
    return [BufferedValue(f"row{n}", node, min(passes)) for n, (node, passes) in enumerate(chosen)]


def _cost(value: Scalar, variable: str) -> int:
    """What computing it costs at every element of a row that ``variable`` walks through."""
    loads = [node.polys[0] for node in value.walk() if node.op == "load" and variable in node.polys[0].names]
    return value.cost + _APART * sum(offset.coefficient(variable) != ONE for offset in loads)


def _worth_their_own(
    entries: list[tuple[Scalar, set[int]]], costs: dict[str, int], threshold: int
) -> list[tuple[Scalar, set[int]]]:
    """Without those that are cheap once the others are kept."""
    chosen: list[tuple[Scalar, set[int]]] = []
    for node, passes in sorted(entries, key=lambda e: costs[e[0].key]):
        below = {n.key for n in node.walk()}
        saved = max((costs[kept.key] for kept, _ in chosen if kept.key in below), default=0)
        if costs[node.key] - saved >= threshold:
            chosen.append((node, passes))
    return chosen


def read_kept(value: Scalar, kept: list[BufferedValue]) -> Scalar:
    """``value`` with what earlier passes (or earlier items of this one) kept read from the row's buffer."""
    by_key = {k.value.key: k for k in kept}

    def change(node: Scalar) -> Scalar | None:
        buffer = by_key.get(node.key)
        if buffer is None:
            return None
        inner = sorted(name for name in node.names if name.startswith("i") and name[1:].isdigit())
        return Scalar(
            "load", node.dtype, polys=(variable(inner[-1]),), data=(buffer.name, node.dtype), label=node.label
        )

    return rewrite(value, change) if by_key else value
