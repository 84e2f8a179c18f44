"""What stays with the library around Triton kernels, and what is taken apart for them: pure, no torch."""

import re

import graphs
import pytest
from graphs import call, graph, source
from msgspec import structs

from kernelswarm.codegen import Generator, Proposal
from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.ir.poly import floordiv, modulo, poly
from kernelswarm.codegen.lowering.library_convolutions import TF32_PERMITTED
from kernelswarm.codegen.lowering.rejoin import together
from kernelswarm.codegen.triton.candidate import generate_triton, gpu_plan
from kernelswarm.codegen.triton.launch import evaluate
from kernelswarm.codegen.triton.source import triton_library
from kernelswarm.codegen.triton.tunables import gpu_settings
from kernelswarm.schemas import Expr, Intent, Items, MemoryOperator, Node, NodePlanned, Ref


def convolution(*after, outputs, bias=None, groups=1):
    ones, none = Items(items=(1, 1)), Items(items=(0, 0))
    return graph(
        source("x", "s0", 64, "s1", 30),
        source("w", 32, 64, 3, 3),
        source("b", 32),
        call(
            "conv", "convolution.default", ("x", "w", bias, ones, ones, ones, False, none, groups), "s0", 32, "s1", 30
        ),
        *after,
        outputs=outputs,
    )


IN_TF32, IN_FP32 = 5e-3, 4e-6
"""Error bounds of problems whose convolutions ran in TF32, and did not."""
RELU = call("relu", "relu.default", ("conv",), "s0", 32, "s1", 30)


def plan_of(source_graph, **config):
    return gpu_plan(source_graph, gpu_settings(config))


def drafts(source_graph, count, error_bound):
    plan = NodePlanned(parent="", intent=Intent.draft, memory=MemoryOperator.clean_slate)
    proposals: list[Proposal] = []
    facts = structs.replace(graphs.facts(source_graph), error_bound=error_bound)
    for _ in range(count):
        tried = [p.config for p in proposals]
        answer = Generator().propose(facts, graphs.HARDWARE, plan, None, tried, language="triton")
        assert isinstance(answer, Proposal)
        proposals.append(answer)
    return proposals


def test_a_convolution_alone_is_tried_with_a_measured_algorithm_before_a_kernel():
    first, last, second = drafts(convolution(outputs=["conv"]), 3, IN_TF32)
    assert "torch.ops.aten._convolution.default(x, w, None" in first.source
    assert "@triton.jit" not in first.source
    assert ".permute(0, 2, 3, 1)" in last.source and "x_last" in last.source
    assert 'input_precision="tf32"' in second.source


def test_where_the_reference_did_without_tf32_its_drafts_do_too():
    for source_graph in (convolution(outputs=["conv"]), convolution(RELU, outputs=["relu"], bias="b")):
        for draft in drafts(source_graph, 6, IN_FP32):
            assert "aten._convolution" not in draft.source, "the measured algorithm may be one in TF32"
            assert draft.config.get("precision", "tf32x3") in ("tf32x3", "ieee")


def test_products_in_fp32_are_never_tried_in_tf32():
    tunables = CODEGEN_BACKENDS["triton"].tunables(graphs.matmul_relu(), graphs.HARDWARE)
    assert tunables["precision"] == ("tf32x3", "ieee")


@pytest.mark.parametrize(
    ("tuned", "target"), [(True, "aten._convolution.default"), (False, "aten.convolution.default")]
)
def test_the_bias_of_a_library_convolution_joins_what_follows(tuned, target):
    plan = plan_of(convolution(RELU, outputs=["relu"], bias="b"), templates=False, tuned=tuned)
    (left,) = plan.externs
    assert left.target == target
    assert left.args[2] is None
    (kernel,) = triton_library(plan, gpu_settings({})).everything()
    assert {name for _, name, _ in kernel.launch.tensors} == {"b", left.name, "relu"}


def test_a_measured_algorithm_may_run_in_tf32_where_the_reference_may():
    source_graph = convolution(RELU, outputs=["relu"], bias="b", groups=2)
    text = generate_triton(graphs.facts(source_graph), source_graph, gpu_settings({"templates": False})).source
    assert "2, True, False, True, _tf32_permitted())" in text and text.count(TF32_PERMITTED) == 1


def network(count):
    """Convolutions of one shape, each with its ReLU."""
    ones, none = Items(items=(1, 1)), Items(items=(0, 0))
    shape = ("s0", 32, "s1", 30)
    nodes = [source("x", *shape), source("w", 32, 32, 3, 3)]
    for number in range(count):
        read = f"relu{number - 1}" if number else "x"
        attributes = (read, "w", None, ones, ones, ones, False, none, 1)
        nodes.append(call(f"conv{number}", "convolution.default", attributes, *shape))
        nodes.append(call(f"relu{number}", "relu.default", (f"conv{number}",), *shape))
    return graph(*nodes, outputs=[f"relu{count - 1}"])


@pytest.mark.parametrize(("count", "values"), [(8, (True, False)), (9, (False, True))])
def test_few_convolutions_are_measured_by_default(count, values):
    """Measuring takes longer than anything else in a process that calls a deep network once."""
    assert CODEGEN_BACKENDS["triton"].tunables(network(count), graphs.HARDWARE)["tuned"] == values
    (first,) = drafts(network(count), 1, IN_TF32)
    assert ("aten._convolution.default" in first.source) == values[0]


def pools(first, second):
    sizes = [Items(items=(n, n)) for n in (first, second)]
    return graph(
        source("x", "s0", 4, 48, 48),
        call("inner", "avg_pool2d.default", ("x", sizes[0]), "s0", 4, 48 // first, 48 // first),
        call("outer", "avg_pool2d.default", ("inner", sizes[1]), "s0", 4, 48 // first // second, 48 // first // second),
        outputs=["outer"],
    )


@pytest.mark.parametrize(("second", "stays"), [(2, []), (3, ["outer"])])
def test_a_pool_of_a_pool_is_one_kernel_only_where_it_reads_few_elements(second, stays):
    assert [node.name for node in plan_of(pools(2 if second == 2 else 4, second)).externs] == stays


def test_rows_of_odd_length_are_no_tiles():
    texts = []
    for last in (400, 401):
        source_graph = graph(
            source("x", "s0", 8, last),
            source("b", 8, 1),
            call("add", "add.Tensor", ("x", "b"), "s0", 8, last),
            outputs=["add"],
        )
        (kernel,) = triton_library(plan_of(source_graph), gpu_settings({})).everything()
        texts.append(kernel.text)
    assert ["row_mask" in text for text in texts] == [True, False]


def sums(dim, keep, *dims):
    total = call("total", "sum.dim_IntList", ("x", Items(items=(dim,)), True), *keep)
    return graph(source("x", *dims), total, outputs=["total"])


LARGE = {
    "elements": graph(source("x", "s0", "s1"), call("y", "relu.default", ("x",), "s0", "s1"), outputs=["y"]),
    "tiles": graph(
        source("x", "s0", "s1"),
        source("b", "s0", 1),
        call("y", "add.Tensor", ("x", "b"), "s0", "s1"),
        outputs=["y"],
    ),
    "rows": sums(1, ("s0", 1), "s0", "s1"),
    "columns": sums(0, (1, "s1"), "s0", "s1"),
}


@pytest.mark.parametrize("kind", LARGE)
def test_indices_have_64_bits_from_two_to_the_31_elements_on(kind):
    library = triton_library(plan_of(LARGE[kind], split=1), gpu_settings({"split": 1}))
    (kernel,) = library.everything()
    wide = dict(kernel.launch.numbers)["WIDE"]
    widths = [evaluate(wide, {"s0": 1 << 16, "s1": columns}) for columns in ((1 << 15) - 1, 1 << 15)]
    assert widths == [False, True]
    assert ("tl.program_id(0).to(tl.int64) if WIDE" in kernel.text) and (
        kind != "columns"
        or re.search(r"cols = \(start \+ tl.arange\(0, \d+\)\[:, None\]\).to\(tl.int64\) if WIDE", kernel.text)
    )


def test_what_is_taken_apart_and_put_together_by_the_same_size_is_whole():
    x, size = poly("3*i0 + i1"), poly("s0 - 2")
    apart = floordiv(x, size) * size + modulo(x, size) + poly("7*s1")
    assert together(apart * 4) == (x + poly("7*s1")) * 4
    assert together(apart + modulo(x, size)) == apart + modulo(x, size)
    within = modulo(floordiv(x, size), poly("s2")) * size + modulo(x, size)
    assert together(within * 3) == modulo(x, size * poly("s2")) * 3, "of three dimensions the first is left out"


def test_a_row_behind_a_convolution_is_read_as_it_lies():
    flat = Items(items=(Expr(value="s0"), 4, Expr(value="240*s1")))
    view = call("rows", "view.default", ("conv", flat), "s0", 4, "240*s1")
    total = call("total", "sum.dim_IntList", ("rows", Items(items=(2,))), "s0", 4)
    source_graph = convolution(view, total, outputs=["total"], bias="b")
    (kernel,) = triton_library(plan_of(source_graph, templates=False), gpu_settings({"split": 1})).everything()
    (read,) = [line for line in kernel.text.splitlines() if "conv_products_ptr +" in line]
    assert " + (cols)," in read


@pytest.mark.parametrize(
    ("columns", "tile"), [(1 << 19, "[4, 256]"), (1 << 16, "[8, 64]"), (2048, "[128, 32]"), (16, "[256, 16]")]
)
def test_columns_are_gone_over_few_elements_at_a_time_unless_programs_are_few(columns, tile):
    source_graph = sums(0, (1, columns), 4096, columns)
    (kernel,) = triton_library(plan_of(source_graph, split=1), gpu_settings({"split": 1})).everything()
    assert f"total_acc = tl.full({tile}" in kernel.text
    assert "eviction_policy" not in kernel.text


def test_attention_left_to_the_library_is_the_operator_that_gpus_have():
    heads = ("s0", 4, 16, 32)
    attention = call(
        "attention", "_scaled_dot_product_flash_attention_for_cpu.default", ("q", "k", "v", 0.0, True), *heads
    )
    taken = Node(
        name="taken",
        op="call",
        target="operator.getitem",
        args=(Ref(name="attention"), 0),
        values=attention.values,
    )
    source_graph = graph(
        *(source(name, *heads) for name in "qkv"),
        attention,
        taken,
        call("relu", "relu.default", ("taken",), *heads),
        outputs=["relu"],
    )
    text = generate_triton(graphs.facts(source_graph), source_graph, gpu_settings({"templates": False})).source
    assert "taken = torch.ops.aten.scaled_dot_product_attention.default(q, k, v, None, 0.0, True)" in text
    assert "_for_cpu" not in text, "where no kernel serves, the captured operator runs on the device, too"
