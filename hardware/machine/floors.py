"""What no implementation can be faster than on a machine: bytes that must move, operations that must be done.

A floor condemns, so everything in it is in the candidate's favour: bytes that provably matter, the bandwidth of the
nearest cache that they could lie in, operations only of products that no algebra makes cheaper, the highest peak that
was measured, and a factor on top of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...schemas import Graph, HardwareFacts, Node, ProblemFacts
from .roofline import FASTEST_ALLOWED, bandwidth_gbps, peak_gflops
from .work import flops_of, operands, refs

BYTES_FACTOR = 2.0
"""The measured bandwidth may be too low by as much."""
OPERATIONS_FACTOR = 8.0
"""Strassen's and Winograd's algorithms save up to 4, triangular operands up to 6."""
LARGEST_WINDOW = 9
"""Elements of a convolution's window beyond which transforms save more than :data:`OPERATIONS_FACTOR`."""

_PRODUCTS = ("aten.mm.", "aten.bmm.", "aten.addmm.", "aten.baddbmm.", "aten.convolution.")
_WHOLE_VIEWS = {
    "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.permute.default",
    "aten.transpose.int", "aten.t.default", "aten.unsqueeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
    "aten.squeeze.default", "aten.alias.default", "aten.detach.default", "aten.clone.default", "aten.expand.default",
}  # fmt: skip


@dataclass(frozen=True)
class Floor:
    """A time of one call, and why it is one."""

    ns: float
    """0 where nothing is known."""

    why: str
    """In words and numbers."""


def floor_of(facts: ProblemFacts, hardware: HardwareFacts, copies: int) -> Floor:
    """The time that no honest call at the first shape is faster than; ``copies`` of the inputs are taken in turn."""
    return max(_of_bytes(facts, hardware, copies), _of_operations(facts, hardware), key=lambda floor: floor.ns)


def _of_bytes(facts: ProblemFacts, hardware: HardwareFacts, copies: int) -> Floor:
    needed = facts.work.needed_bytes
    # What is written may stay in the last-level cache of a device beyond the end of the call.
    needed -= max((accelerator.l2_bytes for accelerator in hardware.accelerators), default=0)
    if needed <= 0 or not (hardware.bandwidths or hardware.accelerators):
        return Floor(0.0, "")
    written = facts.work.write_bytes
    speed = bandwidth_gbps(hardware, copies * max(0, facts.work.needed_bytes - written) + written)
    if not speed > 0:
        return Floor(0.0, "")
    ns = needed / speed / BYTES_FACTOR
    return Floor(
        ns,
        f"it must move {needed / 1e6:.3g} MB, which takes {ns * BYTES_FACTOR / 1e3:.3g} us at the {speed:.3g} GB/s "
        f"measured here, and not less than a {BYTES_FACTOR:g}th of that",
    )


def _of_operations(facts: ProblemFacts, hardware: HardwareFacts) -> Floor:
    dtype = facts.dtype.removeprefix("torch.")
    measured = dtype in ("float32", "float64") or any(
        u in hardware.matmul_gflops for u in FASTEST_ALLOWED.get(dtype, ())
    )
    operations = dense_operations(facts.graph) if facts.graph is not None else facts.work.dense_flops
    peak = peak_gflops(hardware, dtype)
    if not operations or not measured or not peak > 0:
        return Floor(0.0, "")
    ns = operations / peak / OPERATIONS_FACTOR
    return Floor(
        ns,
        f"its matrix products are {operations / 1e9:.3g} thousand million operations, which take "
        f"{ns * OPERATIONS_FACTOR / 1e3:.3g} us at the {peak:.4g} GFLOP/s measured here, and not less than an "
        f"{OPERATIONS_FACTOR:g}th of that by any algorithm in use",
    )


def dense_operations(graph: Graph) -> int:
    """Operations of those products whose operands come whole from inputs and whose every element reaches an output."""
    nodes = {node.name: node for node in graph.nodes}
    users: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in operands(node):
            users.setdefault(name, []).append(node)
    products = (node for node in graph.nodes if node.op == "call" and node.target.startswith(_PRODUCTS))
    return sum(flops_of(node, nodes) for node in products if _is_dense(node, nodes) and _all_kept(node, users))


def _is_dense(node: Node, nodes: dict[str, Node]) -> bool:
    operands = list(refs(node.args))[-2:] if node.target.startswith(("aten.addmm", "aten.baddbmm")) else None
    operands = operands or list(refs(node.args))[:2]
    if node.target.startswith("aten.convolution"):
        window = nodes[operands[1]].values[0].example[2:] if nodes[operands[1]].values else ()
        if not window or math.prod(window) > LARGEST_WINDOW:
            return False
    return all(_comes_whole(nodes[name], nodes) for name in operands)


def _comes_whole(node: Node, nodes: dict[str, Node]) -> bool:
    while node.op == "call" and node.target in _WHOLE_VIEWS:
        source = nodes[next(refs(node.args))]
        if _count(source) != _count(node):
            return False
        node = source
    return node.op in ("input", "param")


def _all_kept(node: Node, users: dict[str, list[Node]]) -> bool:
    """Whether nothing behind ``node`` has fewer elements or multiplies it with another matrix."""
    return all(
        user.op == "output" or (_count(user) >= _count(node) and not user.target.startswith(_PRODUCTS))
        for user in _behind(node, users)
    )


def _behind(node: Node, users: dict[str, list[Node]]) -> Iterator[Node]:
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        for user in users.get(waiting.pop().name, []):
            if user.name not in seen:
                seen.add(user.name)
                waiting.append(user)
                yield user


def _count(node: Node) -> int:
    return max((math.prod(meta.example) for meta in node.values if meta.example or not meta.shape), default=0)
