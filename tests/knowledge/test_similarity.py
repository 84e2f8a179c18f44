"""How alike problems are, and which skills a search sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.knowledge import ProblemFeatures, features_of_problem, features_of_skill, relevant_skills, similarity
from kernelswarm.schemas import Pool, ProblemFacts, Skill, Work

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))
NORM = ("aten.mean.dim", "aten.mul.Tensor", "aten.pow.Tensor_Scalar", "aten.rsqrt.default")

features = st.builds(
    ProblemFeatures,
    operators=st.lists(st.sampled_from([*NORM, "aten.view.default", "aten.exp.default"]), unique=True).map(tuple),
    dtype=st.sampled_from(["float32", "bfloat16"]),
    sizes=st.tuples(*[st.integers(0, 2**40)] * 3),
    platform=st.sampled_from(["cpu", "gpu"]),
)


def make(operators=NORM, dtype="float32", sizes=(1000, 1000, 1000), platform="cpu") -> ProblemFeatures:
    return ProblemFeatures(operators=operators, dtype=dtype, sizes=sizes, platform=platform)


def skill(name: str, operators=NORM, speedup=1.5, sizes=(1000, 1000, 1000), platform="cpu") -> Skill:
    return Skill(
        id=name, title=name, pool="cpu", platform=platform, operators=operators, dtype="float32", sizes=sizes,
        text="", speedup=speedup,
    )  # fmt: skip


def facts(operators=NORM) -> ProblemFacts:
    return ProblemFacts(
        signature=("x",), shapes=(), graph=None, work=Work(read_bytes=1000, write_bytes=1000, flops=1000),
        dtype="float32", float64_oracle=True, operators=operators,
    )  # fmt: skip


@given(features, features)
def test_it_is_symmetric_and_between_0_and_1(a, b):
    assert similarity(a, b) == pytest.approx(similarity(b, a))
    assert 0.0 <= similarity(a, b) <= 1.0 + 1e-9


def test_the_same_is_1():
    assert similarity(make(), make()) == pytest.approx(1.0)


def test_overloads_and_layout_do_not_count():
    overloads = ("aten.mean.default", "aten.mul.Scalar", "aten.pow.Scalar", "aten.rsqrt.default", "aten.view.default")
    assert similarity(make(), make(operators=overloads)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changed", "loss"),
    [
        (make(platform="gpu"), 0.25),
        (make(dtype="float16"), 0.15),
        (make(operators=("aten.conv.default",)), 0.45),
        (make(operators=NORM[:2]), 0.225),
        (make(sizes=(10**9,) * 3), 0.15),
        (make(sizes=()), 0.15),
    ],
)
def test_what_each_part_takes_away(changed, loss):
    assert similarity(make(), changed) == pytest.approx(1 - loss, abs=1e-3)


def test_unknown_operators_are_like_nothing():
    assert similarity(make(operators=()), make(operators=())) == pytest.approx(0.55)


def test_sizes_nearby_cost_little():
    assert similarity(make(), make(sizes=(2000,) * 3)) > similarity(make(), make(sizes=(100_000,) * 3)) > 0.85


def test_nearest_first_then_the_faster_each_once():
    far = skill("far", operators=("aten.conv.default",))
    skills = [
        far,
        skill("slow"),
        skill("fast", speedup=3.0),
        skill("half", operators=NORM[:3]),
        skill("fast", speedup=3.0),
    ]
    assert [relevant.id for relevant in relevant_skills(skills, facts(), POOL)] == ["fast", "slow", "half"]
    assert [relevant.id for relevant in relevant_skills(skills[::-1], facts(), POOL)] == ["fast", "slow", "half"]
    assert len(relevant_skills(skills, facts(), POOL, limit=1)) == 1


def test_without_a_common_operator_nothing_is_found():
    assert relevant_skills([skill("s")], facts(operators=()), POOL) == []


def test_problem_and_skill_are_compared_by_the_same_features():
    assert features_of_problem(facts(), "cpu") == features_of_skill(skill("s"))
