"""What drafts of unrolled steps cost: as much again for twice as many."""

import graphs
import pytest

from kernelswarm.codegen.lowering.lower import Lowering
from kernelswarm.codegen.lowering.regions import Fusion, partition
from kernelswarm.schemas import Graph, Items, Ref


def scan(steps: int) -> Graph:
    """Each step gates the state of the last one, and is summed up."""
    nodes, before = [], "x"
    for number in range(steps):
        nodes.append(graphs.call(f"h{number}", "mul.Tensor", (Ref(name=before), Ref(name="x")), "s0", "s1"))
        before = f"t{number}"
        nodes.append(graphs.call(before, "tanh.default", (Ref(name=f"h{number}"),), "s0", "s1"))
        summed = (Ref(name=before), Items(items=(-1,)))
        nodes.append(graphs.call(f"y{number}", "sum.dim_IntList", summed, "s0"))
    return graphs.graph(graphs.source("x", "s0", "s1"), *nodes, outputs=[f"y{number}" for number in range(steps)])


def test_a_chain_is_lowered_once_for_all_that_is_summed_along_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    element = Lowering._element

    def counted(self, node, at, item):
        lowered.append(node.name)
        return element(self, node, at, item)

    monkeypatch.setattr(Lowering, "_element", counted)
    counts = []
    for steps in (20, 40):
        plan = partition(scan(steps), Fusion())
        assert len(plan.kernels) == 1 and len(plan.kernels[0].accumulations) == steps
        counts.append(len(lowered))
        lowered.clear()
    assert counts[1] < 2.5 * counts[0]


def test_what_is_stored_later_is_loaded_by_others_that_had_it_in_place() -> None:
    """``h`` is lowered in place for the rows' kernel, then stored by a kernel of its own, which others load from."""
    graph = graphs.graph(
        graphs.source("x", "s0", "s1"),
        graphs.call("h", "tanh.default", (Ref(name="x"),), "s0", "s1"),
        graphs.call("rows", "sum.dim_IntList", (Ref(name="h"), Items(items=(-1,))), "s0"),
        graphs.call("twice", "mul.Tensor", (Ref(name="h"), 2), "s0", "s1"),
        outputs=["rows", "h", "twice"],
    )
    for fusion in (Fusion(), Fusion(reductions=False), Fusion(stores=False), Fusion(reductions=False, stores=False)):
        plan = partition(graph, fusion)
        assert {name for kernel in plan.kernels for name in kernel.stores} >= {"rows", "h", "twice"}
