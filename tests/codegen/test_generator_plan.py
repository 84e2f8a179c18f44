"""Partition, tunables and proposals: pure, no torch, no compiler."""

import graphs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernelswarm.codegen import Exhausted, Generator, Proposal
from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.cpp.candidate import generate
from kernelswarm.codegen.cpp.features import features_of
from kernelswarm.codegen.cpp.mutations import CPP_MUTATIONS
from kernelswarm.codegen.ir.error_bounds import ErrorBounds
from kernelswarm.codegen.ir.poly import divide, poly, product, variable
from kernelswarm.codegen.ir.printing import python_poly
from kernelswarm.codegen.ir.tunables import DOMAINS, Settings, complete, domains, settings
from kernelswarm.codegen.lowering.normal import normalise
from kernelswarm.codegen.lowering.regions import Fusion, partition
from kernelswarm.codegen.lowering.repeated import repeated
from kernelswarm.hardware.machine.work import count_work
from kernelswarm.hardware.sources.native_source import native_source
from kernelswarm.schemas import (
    Advice,
    AdviceAction,
    Intent,
    Items,
    MemoryOperator,
    NodePlanned,
    Ref,
    Skill,
    decode,
    encode,
)
from kernelswarm.schemas.graph import Graph


def planned(intent=Intent.draft, number=1, advice=(), parent=""):
    return NodePlanned(
        parent=parent, intent=intent, memory=MemoryOperator.inherit, draw=number * 7919, number=number, advice=advice
    )


def plan(source_graph, **fusion):
    return partition(normalise(source_graph), Fusion(**fusion))


# Partition


def test_softmax_is_one_kernel_of_three_passes():
    (kernel,) = plan(graphs.softmax()).kernels
    assert kernel.reduced == {1}
    assert [kernel.pass_of(a.body) for a in kernel.accumulations.values()] == [0, 1]
    assert kernel.pass_of(kernel.stores["div"].value) == 2


def test_without_fusion_every_reduction_is_stored():
    kernels = plan(graphs.softmax(), reductions=False, stores=False).kernels
    assert [sorted(k.stores) for k in kernels] == [["amax"], ["total"], ["div"]]


def of_angles(angle=("s1",), costly="cos.default"):
    """``x * cos(angle)`` over 2048 rows."""
    return graphs.graph(
        graphs.source("x", "s0", "s1"),
        graphs.source("angle", *angle),
        graphs.call("cos", costly, ["angle"], *angle),
        graphs.call("turned", "mul.Tensor", ["x", "cos"], "s0", "s1"),
        outputs=["turned"],
    )


def test_a_costly_value_that_is_broadcast_is_stored_once():
    assert [sorted(k.stores) for k in plan(of_angles(), store_repeated=True).kernels] == [["cos"], ["turned"]]


def test_of_a_chain_of_costly_values_the_last_is_stored():
    source_graph = graphs.graph(
        graphs.source("x", "s0", "s1"),
        graphs.source("angle", "s1"),
        graphs.call("cos", "cos.default", ["angle"], "s1"),
        graphs.call("exp", "exp.default", ["cos"], "s1"),
        graphs.call("turned", "mul.Tensor", ["x", "exp"], "s0", "s1"),
        outputs=["turned"],
    )
    assert [sorted(k.stores) for k in plan(source_graph, store_repeated=True).kernels] == [["exp"], ["turned"]]


@pytest.mark.parametrize(("made", "kernels"), [("pow.Tensor_Scalar", 2), ("neg.default", 1)])
def test_the_more_a_value_costs_the_fewer_repetitions_let_it_be_stored(made, kernels):
    """The angles of a few heads: a cosine alone costs less than a kernel, one of a power more."""
    source_graph = graphs.graph(
        graphs.source("x", 4, 64, 32),
        graphs.source("rates", 64, 32),
        graphs.call("angle", made, ["rates", 3.5][: 1 + (kernels > 1)], 64, 32),
        graphs.call("cos", "cos.default", ["angle"], 64, 32),
        graphs.call("turned", "mul.Tensor", ["x", "cos"], 4, 64, 32),
        outputs=["turned"],
    )
    assert len(plan(source_graph, store_repeated=True).kernels) == kernels


def of_rows(*shape):
    """``x * exp(scale)``, one scale for each row or for all."""
    return graphs.graph(
        graphs.source("x", "s0", "s1"),
        graphs.source("scale", *shape),
        graphs.call("exp", "exp.default", ["scale"], *shape),
        graphs.call("turned", "mul.Tensor", ["x", "exp"], "s0", "s1"),
        outputs=["turned"],
    )


@pytest.mark.parametrize(
    "made",
    [of_angles(costly="neg.default"), of_angles(angle=("s0", "s1")), of_rows("s0", 1), of_rows()],
    ids=["cheap", "as large as what it is used for", "constant along rows", "one number"],
)
def test_what_costs_little_or_is_computed_once_is_not_stored(made):
    assert [sorted(k.stores) for k in plan(made, store_repeated=True).kernels] == [["turned"]]


def test_what_depends_on_a_reduction_stays_in_its_kernel():
    source_graph = graphs.graph(
        graphs.source("x", "s0", "s1"),
        graphs.call("total", "sum.dim_IntList", ["x", graphs.last(), True], "s0", 1),
        graphs.call("log", "log.default", ["total"], "s0", 1),
        graphs.call("shifted", "sub.Tensor", ["x", "log"], "s0", "s1"),
        outputs=["shifted"],
    )
    assert [sorted(k.stores) for k in plan(source_graph, store_repeated=True).kernels] == [["shifted"]]


def test_what_is_made_of_a_row_s_sum_stays_there_beside_sums_of_columns():
    """Gradients of a norm: that by its weight adds up all rows, and its kernel had taken the one by the input, too."""
    source_graph = graphs.graph(
        graphs.source("x", "s0", "s1"),
        graphs.call("total", "sum.dim_IntList", ["x", graphs.last(), True], "s0", 1),
        graphs.call("part", "div.Tensor", ["x", "total"], "s0", "s1"),
        graphs.call("weight", "sum.dim_IntList", ["part", graphs.last(0)], "s1"),
        graphs.call("log", "log.default", ["total"], "s0", 1),
        graphs.call("shifted", "sub.Tensor", ["x", "log"], "s0", "s1"),
        outputs=["weight", "shifted"],
    )
    rows, columns = plan(source_graph).kernels
    assert "shifted" in rows.stores and set(columns.stores) == {"weight"}


def test_what_is_computed_of_nothing_but_positions_is_stored_as_well():
    """Rotary embeddings as Llama writes them: the cosines of a concatenation of products of positions."""
    source_graph = graphs.graph(
        graphs.source("x", 8, "s0", "s1"),
        graphs.source("rates", 2048),
        graphs.call("places", "arange.default", [2048], "s0", 1),
        graphs.call("half", "mul.Tensor", ["places", "rates"], "s0", 2048),
        graphs.call("angle", "cat.default", [Items(items=(Ref(name="half"), Ref(name="half"))), -1], "s0", "s1"),
        graphs.call("cos", "cos.default", ["angle"], "s0", "s1"),
        graphs.call("turned", "mul.Tensor", ["x", "cos"], 8, "s0", "s1"),
        outputs=["turned"],
    )
    assert "cos" in repeated(source_graph, {node.name for node in source_graph.nodes}, {"x", "rates"})


def test_products_are_left_to_pytorch_between_kernels():
    kernel_plan = plan(graphs.matmul_relu())
    assert [node.name for node in kernel_plan.externs] == ["mm"]
    assert [sorted(k.stores) for k in kernel_plan.kernels] == [["scaled"], ["relu"]]
    assert [k.rank for k in kernel_plan.kernels] == [0, 1]


def test_rows_and_columns_go_apart_and_a_loss_joins_its_rows():
    rows, columns = plan(graphs.mean_then_columns()).kernels
    assert {a.level for a in rows.accumulations.values()} == {"row", "full"}
    assert (rows.reduced, columns.reduced) == ({1}, {0})


def test_reshaping_costs_nothing():
    (kernel,) = plan(graphs.reshaped()).kernels
    (load,) = [n for n in kernel.stores["exp"].value.walk() if n.op == "load"]
    assert load.polys[0] == variable("i0")


def test_graph_survives_json():
    source_graph = graphs.softmax()
    assert decode(encode(source_graph), Graph) == source_graph


def test_work_counts_inputs_outputs_and_products():
    work = count_work(graphs.only_matmul())
    assert work.flops == 2 * 2048 * 4096 * 64
    assert work.read_bytes == 4 * (2048 * 4096 + 4096 * 64)
    assert work.write_bytes == 4 * 2048 * 64


# Polynomials

names = st.sampled_from(["s0", "s1", "i0", "i1"])
expressions = st.recursive(
    names | st.integers(0, 9).map(str),
    lambda inner: st.tuples(inner, st.sampled_from(["+", "*", "-"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    max_leaves=8,
)


@given(expressions, st.lists(st.integers(1, 50), min_size=4, max_size=4))
def test_polynomials_keep_their_value(text, values):
    sizes = dict(zip(["s0", "s1", "i0", "i1"], values, strict=True))
    assert eval(python_poly(poly(text)), {}, sizes) == eval(text, {}, sizes)


@given(st.integers(0, 30), st.integers(0, 6), st.integers(1, 7), st.integers(31, 40))
def test_division_of_mixed_radix_digits(i, j, inner, outer):
    j %= inner
    sizes = {"i0": poly(outer), "i1": poly("s1")}
    quotient, rest = divide(variable("i0") * poly("s1") + variable("i1"), poly("s1"), sizes)
    values = {"i0": i, "i1": j, "s1": inner}
    assert (python_poly(quotient), python_poly(rest)) == ("i0", "i1")
    assert eval(python_poly(quotient), {}, values) == (i * inner + j) // inner


def test_sizes_are_compared_as_polynomials():
    assert poly("(s0 + 1)*s1") == product([poly("s0") + 1, poly("s1")])
    assert poly("max(1, s0)") != poly("s0")


# Tunables and proposals


def tunables_of(source_graph):
    return domains(features_of(source_graph, plan(source_graph)), graphs.HARDWARE)


def test_only_tunables_that_matter_are_offered():
    row = tunables_of(graphs.softmax())
    assert {"math", "row_buffer", "online", "huge_pages", "lanes"} <= set(row)
    assert not {"search", "tile", "variance", "in_place"} & set(row)
    assert "in_place" in tunables_of(graphs.matmul_relu())


def test_every_tunable_has_a_setting_and_every_move_a_tunable():
    assert set(DOMAINS) == set(Settings.__dataclass_fields__)
    assert {name for steps in CPP_MUTATIONS.values() for name, _ in steps} == set(DOMAINS)
    assert set(CPP_MUTATIONS) == set(AdviceAction)


def test_every_value_of_every_tunable_changes_something_or_is_refused():
    source_graph = graphs.softmax()
    tunables = tunables_of(source_graph)
    default = generate(graphs.facts(source_graph), source_graph, settings(complete({}, tunables))).source
    changed = [
        name
        for name, values in tunables.items()
        if any(
            generate(graphs.facts(source_graph), source_graph, settings(complete({name: v}, tunables))).source
            != default
            for v in values
        )
    ]
    assert set(tunables) - set(changed) <= {"fusion", "keep_shared"}


def test_less_accurate_functions_are_offered_only_where_the_problem_allows_their_errors():
    facts = graphs.facts(graphs.softmax())
    offered = {}
    for bound in (None, 1e-7, 1e-5):
        allowed = ErrorBounds.of_problem(structs.replace(facts, error_bound=bound))
        offered[bound] = CODEGEN_BACKENDS["cpp"].tunables(facts.graph, graphs.HARDWARE, allowed)["math"]
    assert offered == {
        None: ("accurate", "fast", "libm"),
        1e-7: ("accurate", "libm"),
        1e-5: ("accurate", "fast", "libm"),
    }


def test_functions_of_moderate_arguments_are_a_choice_of_their_own():
    source_graph = graphs.graph(
        graphs.source("x", "s0", "s1"), graphs.call("sin", "sin.default", ("x",), "s0", "s1"), outputs=["sin"]
    )
    assert tunables_of(source_graph)["math"] == ("accurate", "fast", "libm", "short")
    sources = {
        m: generate(graphs.facts(source_graph), source_graph, settings({"math": m})).source
        for m in ("accurate", "fast", "short")
    }
    assert sources["fast"] == sources["accurate"]
    assert "ks_sin_short(" in sources["short"]


@pytest.mark.parametrize("action", list(AdviceAction))
def test_mutations_stay_inside_the_domains(action):
    tunables = tunables_of(graphs.softmax())
    start = complete({}, tunables)
    for config in CODEGEN_BACKENDS["cpp"].mutations(action, start, tunables):
        assert config != start
        assert all(config[name] in tunables[name] for name in config)


def test_proposals_are_deterministic_distinct_and_readable_without_running():
    facts, tried, sources = graphs.facts(graphs.softmax()), [], set()
    for number in range(1, 31):
        intent = Intent.draft if number < 9 else Intent.improve
        parent = None if number < 9 else tried[0]
        answers = [
            Generator().propose(facts, graphs.HARDWARE, planned(intent, number), parent, tried) for _ in range(2)
        ]
        assert answers[0] == answers[1]
        assert isinstance(answers[0], Proposal)
        assert native_source(answers[0].source, "CPP") is not None
        assert answers[0].rationale
        sources.add(answers[0].source)
        tried.append(answers[0].config)
    assert len(sources) == 30


def test_advice_is_followed_first():
    facts = graphs.facts(graphs.softmax())
    first = Generator().propose(facts, graphs.HARDWARE, planned(), None, [])
    advice = (Advice(action=AdviceAction.cheaper_math, reason="exp takes 80 % of the time"),)
    plan_ = planned(Intent.improve, 2, advice, "n1")
    second = Generator().propose(facts, graphs.HARDWARE, plan_, first.config, [first.config])
    assert second.config == {**first.config, "math": "fast"}
    assert "exp takes 80 %" in second.rationale


def test_repair_takes_back_what_is_suspect():
    facts = graphs.facts(graphs.softmax())
    tunables = tunables_of(graphs.softmax())
    wrong = complete({"math": "fast"}, tunables)
    answer = Generator().propose(facts, graphs.HARDWARE, planned(Intent.repair, 3, (), "n2"), wrong, [wrong])
    assert answer.config["math"] == "accurate"


def skill_with(*recipes):
    return Skill(
        id="softmax-1",
        title="fast exponentials",
        pool="cpu",
        platform="cpu",
        operators=(),
        dtype="float32",
        sizes=(),
        text="",
        recipes=recipes,
    )


def test_a_skill_is_tried_before_the_default():
    facts = graphs.facts(graphs.softmax())
    skill = skill_with({"math": "fast", "unknown": 1})
    first = Generator().propose(facts, graphs.HARDWARE, planned(), None, [], [skill])
    second = Generator().propose(facts, graphs.HARDWARE, planned(number=2), None, [first.config], [skill])
    assert (first.config["math"], first.skill) == ("fast", "softmax-1")
    assert (second.config["math"], second.skill) == ("accurate", "")


def test_skills_leave_room_for_the_usual_drafts():
    facts = graphs.facts(graphs.softmax())
    tunable, values = next((name, values) for name, values in tunables_of(graphs.softmax()).items() if name != "math")
    skill = skill_with({"math": "fast"}, {"math": "fast", tunable: values[1]})
    tried, taken = [], []
    for number in range(1, 5):
        answer = Generator().propose(facts, graphs.HARDWARE, planned(number=number), None, tried, [skill])
        tried.append(answer.config)
        taken.append(bool(answer.skill))
    assert taken == [True, False, False, True]


@pytest.mark.parametrize(
    ("made", "reason"), [(None, "could not be captured: it sleeps"), (graphs.only_matmul(), "nothing to fuse")]
)
def test_nothing_to_do_is_said(made, reason):
    answer = Generator().propose(graphs.facts(made, "it sleeps"), graphs.HARDWARE, planned(), None, [])
    assert isinstance(answer, Exhausted)
    assert reason in answer.reason


def test_the_space_ends():
    facts, tried = graphs.facts(graphs.reshaped()), []
    for number in range(1, 500):
        answer = Generator().propose(facts, graphs.HARDWARE, planned(number=number), None, tried, (), set())
        if isinstance(answer, Exhausted):
            break
        tried.append(answer.config)
    assert isinstance(answer, Exhausted)
