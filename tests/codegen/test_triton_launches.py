"""Which launches a Triton candidate says it makes, and for which sizes it makes them: pure, no torch, no compiler."""

import ast
import functools

import graphs
import pytest
from graphs import call, graph, source
from msgspec import structs

from kernelswarm.codegen.ir.poly import ZERO, poly
from kernelswarm.codegen.triton.candidate import generate_triton, gpu_plan
from kernelswarm.codegen.triton.launch import settled
from kernelswarm.codegen.triton.launch_table import KIND, MOST_LISTED, LaunchTable, launches_literal
from kernelswarm.codegen.triton.layout import layout_of
from kernelswarm.codegen.triton.source import triton_library
from kernelswarm.codegen.triton.tunables import gpu_settings
from kernelswarm.schemas import InputFact, Items, ShapeFacts


def kernels_of(source_graph):
    settings = gpu_settings({})
    return triton_library(gpu_plan(source_graph, settings), settings).everything()


def shape(name, **tensors):
    inputs = tuple(InputFact(name=n, kind="tensor", shape=sizes, dtype="float32") for n, sizes in tensors.items())
    return ShapeFacts(name=name, inputs=inputs, outputs=())


def rows():
    """Elementwise on rows of 4096."""
    return graph(source("x", "s0", 4096), call("exp", "exp.default", ("x",), "s0", 4096), outputs=["exp"])


def product(*views, left="x", right="w", m="s0", k=64, n=40):
    return graph(
        source("x", "s0", 64),
        source("w", 64, 40),
        *views,
        call("mm", "mm.default", (left, right), m, n),
        call("relu", "relu.default", ("mm",), m, n),
        outputs=["relu"],
    )


def layout(source_graph, name):
    return layout_of(name, gpu_plan(source_graph, gpu_settings({})))


# Layouts


def test_a_transposed_weight_is_read_in_place():
    turned = call("t", "t.default", ("w",), 40, 64)
    operand_layout = layout(product(turned, left="t", right="x", m=40, n=64), "t")
    assert (operand_layout.base, operand_layout.given, operand_layout.offset) == ("w", None, ZERO)
    assert operand_layout.strides == (poly(1), poly(40))


def test_a_part_is_read_in_place_from_its_first_element_on():
    part = call("part", "slice.Tensor", ("w", 1, 3, 13), 64, 10)
    operand_layout = layout(product(part, right="part", n=10), "part")
    assert (operand_layout.base, operand_layout.offset) == ("w", poly(3))
    assert operand_layout.strides == (poly(40), poly(1))


def test_dimensions_that_a_view_merges_are_one_stride():
    source_graph = graph(
        source("x", "s0", "s1", 8, 64),
        call("turned", "transpose.int", ("x", 2, 3), "s0", "s1", 64, 8),
        call("merged", "view.default", ("turned", Items(items=())), "s0*s1", 64, 8),
        source("w", "s0*s1", 8, 16),
        call("bmm", "bmm.default", ("merged", "w"), "s0*s1", 64, 16),
        outputs=["bmm"],
    )
    operand_layout = layout(source_graph, "merged")
    assert (operand_layout.base, operand_layout.strides) == ("x", (poly(512), poly(1), poly(64)))


def test_what_no_strides_describe_is_copied():
    source_graph = graph(
        source("w", 64, 40),
        source("y", 32, 16),
        call("turned", "t.default", ("w",), 40, 64),
        call("flat", "view.default", ("turned", Items(items=(80, 32))), 80, 32),
        call("mm", "mm.default", ("flat", "y"), 80, 16),
        outputs=["mm"],
    )
    operand_layout = layout(source_graph, "flat")
    assert (operand_layout.base, operand_layout.given, operand_layout.strides) == ("flat", None, (poly(32), poly(1)))


@pytest.mark.parametrize(("strides", "given"), [((1, "s0"), True), ((64, 1), False), ((0, 1), False), ((1, 1), False)])
def test_an_input_is_asked_to_lie_as_captured_unless_its_elements_share_places(strides, given):
    source_graph = product()
    x = structs.replace(
        source_graph.nodes[0], values=(structs.replace(source_graph.nodes[0].values[0], strides=strides),)
    )
    operand_layout = layout(structs.replace(source_graph, nodes=(x, *source_graph.nodes[1:])), "x")
    assert operand_layout.given == (tuple(map(poly, strides)) if given else None)
    assert operand_layout.strides == (tuple(map(poly, strides)) if given else (poly(64), poly(1)))


# The list


def test_an_operand_that_begins_between_multiples_of_16_bytes_is_listed_so():
    for start, written in ((3, "*fp32 unaligned"), (4, "*fp32")):
        part = call("part", "slice.Tensor", ("w", 1, start, start + 10), 64, 10)
        source_graph = product(part, right="part", n=10)
        (launch,) = ast.literal_eval(
            launches_literal([LaunchTable(kernels_of(source_graph), source_graph)]).partition("=")[2].strip()
        )
        assert launch["arguments"]["ks_right_ptr"] == written


def test_shapes_that_are_compiled_alike_have_one_entry():
    source_graph = rows()
    alike, odd = shape("alike", x=(48, 4096)), shape("odd", x=(7, 4096))
    assert len(LaunchTable(kernels_of(source_graph), source_graph, [alike]).entries) == 1
    assert len(LaunchTable(kernels_of(source_graph), source_graph, [alike, odd]).entries) == 2


def test_a_list_has_room_for_whole_shapes_only():
    source_graph = graph(source("x", "s0", "s1"), call("t", "exp.default", ("x",), "s0", "s1"), outputs=["t"])
    shapes = [shape(str(n), x=(n, 2 * n + 1)) for n in range(300, 500)]
    table = LaunchTable([*kernels_of(source_graph)], source_graph, shapes)
    assert len(table.entries) <= MOST_LISTED
    assert {tuple(s.values()) for s in table.sizes} >= {(2048, 4096)}


def condition_of(source_graph, shapes=(), conditions=()):
    """The function that a candidate asks."""
    names = {"functools": functools}
    head = "def _cdiv(a, b):\n    return -(-a // b)\n\n\ndef _pow2(n):\n    return 1 << max(0, (n - 1).bit_length())\n"
    exec(f"{head}{KIND}\n" + LaunchTable(kernels_of(source_graph), source_graph, shapes).functions(conditions), names)
    return names["_listed"]


def test_sizes_for_which_a_kernel_would_be_compiled_anew_are_refused():
    is_compiled = condition_of(rows(), [shape("odd", x=(7, 4096))])
    assert is_compiled(2048)
    assert is_compiled(48)
    assert is_compiled(9)
    assert not is_compiled(1)
    is_compiled = condition_of(rows())
    assert not is_compiled(9)


def test_conditions_on_the_sizes_are_asked_with_the_list():
    assert not condition_of(rows(), conditions=["s0 < 100"])(2048)
    assert condition_of(rows(), conditions=["s0 < 100", "u0 < 3"])(48)


def test_a_size_that_depends_on_the_data_is_not_compiled_in():
    source_graph = rows()
    (kernel,) = kernels_of(source_graph)
    loose = settled(kernel, symbols=())
    assert "do_not_specialize=['s0']" in loose.text
    numbers = dict(loose.launch.numbers)
    assert (numbers["EVEN"], numbers["WIDE"]) == ("False", "True")
    assert settled(kernel, symbols=source_graph.symbols) is kernel


def test_a_candidate_asks_its_list_before_it_launches():
    source_graph = graphs.matmul_relu()
    text = generate_triton(graphs.facts(source_graph), source_graph, gpu_settings({})).source
    assert "_listed(s0, s1, s2)" in text
    assert ".stride() ==" not in text
    assert "x_c = x if x.is_contiguous() and not x.data_ptr() & 15 else _fit(x)" in text
