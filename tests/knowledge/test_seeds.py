"""Which problems are alike, and which winners differ: what docs/seeding.md says, as code."""

import msgspec
import pytest

import given
from kernelswarm.knowledge import Winner, diverse, likeness, structure_of
from kernelswarm.knowledge.diversity import distance
from kernelswarm.schemas import Graph, InputFact, Node, ProblemFacts, Ref, ShapeFacts, Work


def facts(*targets: str, rank: int = 2, dtype: str = "float32", size: int = 1 << 20) -> ProblemFacts:
    """A chain of operators over one input."""
    nodes = [Node(name="x", op="input")]
    for index, target in enumerate(targets):
        nodes.append(Node(name=f"v{index}", op="call", target=f"aten.{target}", args=(Ref(name=nodes[-1].name),)))
    x = InputFact(name="x", kind="tensor", shape=(8,) * rank, dtype=dtype)
    return given.facts(
        graph=Graph(nodes=tuple(nodes)),
        dtype=dtype,
        shapes=(ShapeFacts(name="main", inputs=(x,), outputs=(x,)),),
        work=Work(read_bytes=size, write_bytes=size, flops=size),
        operators=tuple(sorted(f"aten.{target}" for target in targets)),
    )


NORM = facts("pow.Scalar", "mean.dim", "rsqrt.default", "mul.Tensor")


def alike(a: ProblemFacts, b: ProblemFacts, platform: str = "cpu") -> float:
    forward, backward = (
        likeness(structure_of(a, "cpu"), structure_of(b, platform)),
        likeness(structure_of(b, platform), structure_of(a, "cpu")),
    )
    assert forward == backward
    return forward.whole


def test_the_same_problem_is_wholly_alike_and_layout_does_not_count() -> None:
    assert alike(NORM, NORM) == pytest.approx(1.0)
    assert alike(NORM, facts("pow.Scalar", "view.default", "mean.dim", "rsqrt.default", "mul.Tensor")) == pytest.approx(
        1.0
    )


def test_every_part_takes_its_share() -> None:
    assert alike(NORM, NORM, platform="cuda") == pytest.approx(0.8)
    assert alike(NORM, msgspec.structs.replace(NORM, dtype="float16")) == pytest.approx(0.85)
    shuffled = facts("rsqrt.default", "pow.Scalar", "mul.Tensor", "mean.dim")
    assert likeness(structure_of(NORM, "cpu"), structure_of(shuffled, "cpu")).structure == pytest.approx(0.5)
    nothing_shared = facts("exp.default", "sum.dim_IntList", rank=1, size=1 << 40)
    assert alike(NORM, nothing_shared) == pytest.approx(0.35)


def test_without_a_graph_the_names_of_the_operators_must_do() -> None:
    bare = msgspec.structs.replace(NORM, graph=None)
    assert alike(NORM, bare) == pytest.approx(1.0)


def winner(node: str, low: float, **changes: object) -> Winner:
    fields: dict[str, object] = dict(
        session="old-aaaaa",
        node=node,
        source=node,
        sha256=node,
        language="cpp",
        backend="playbook",
        recipe={"lanes": 32, "math": "fast", "online": True},
        branch="old-aaaaa/n001",
        speedup=low * 1.05,
        low=low,
        problem_sha256="p",
        platform="cpu",
    )
    return Winner(**(fields | changes))  # type: ignore[arg-type]


def test_twins_of_the_best_are_passed_over_for_something_else_that_is_good() -> None:
    best = winner("n001", 3.0)
    twin = winner("n002", 2.99)
    near = winner("n003", 2.95, recipe={"lanes": 64, "math": "fast", "online": True})
    far = winner("n004", 2.6, recipe={"lanes": 64, "math": "libm", "online": False}, branch="old-aaaaa/n004")
    slow = winner("n005", 1.1, recipe={"lanes": 1, "math": "x", "online": False}, branch="old-aaaaa/n005")
    assert [w.node for w in diverse([slow, far, near, twin, best], 4)] == ["n001", "n004", "n003"]
    assert diverse([], 4) == []


def test_a_like_problem_is_worth_less_than_the_same_one() -> None:
    same = winner("n001", 1.5)
    similar = winner("n001", 9.0, session="old-bbbbb", problem_sha256="q", similarity=0.7, sha256="q")
    assert diverse([similar, same], 1) == [same]


def test_a_lucky_number_that_nobody_repeated_does_not_come_before_a_confirmed_one() -> None:
    config = {"lanes": 1, "math": "x", "online": False}
    confirmed, lucky = winner("n002", 1.3), winner("n001", 1.6, recipe=config, confirmed=False)
    assert [w.node for w in diverse([lucky, confirmed], 2)] == ["n002", "n001"]
    assert diverse([winner("n003", 0.98, recipe=config, confirmed=False), confirmed], 2) == [confirmed]


def test_kernels_without_settings_differ_by_their_lines() -> None:
    a, b = winner("n001", 2.0, recipe={}, source="x\ny\nz"), winner("n002", 2.0, recipe={}, source="x\ny\nw")
    assert distance(a, b) == pytest.approx(0.6 * 0.5)
    assert distance(a, a) == 0.0
