"""What the Triton backend makes of convolutions: pure, no torch, no compiler."""

import itertools

import graphs
import pytest
from graphs import call, graph, source
from msgspec import structs
from triton_texts import drafts, texts

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.ir.error_bounds import ErrorBounds
from kernelswarm.codegen.triton.candidate import generate_triton, gpu_plan
from kernelswarm.codegen.triton.convolution_text import Slide
from kernelswarm.codegen.triton.tunables import gpu_settings
from kernelswarm.schemas import Items


def convolution(*after, outputs, dtype="float32"):
    ones = Items(items=(1, 1))
    arguments = ("x", "w", None, ones, ones, ones, False, Items(items=(0, 0)), 1)
    return graph(
        source("x", "s0", 64, "s1", 30, dtype=dtype),
        source("w", 32, 64, 3, 3, dtype=dtype),
        source("y", "s0", 32, "s1", 30, dtype=dtype),
        call("conv", "convolution.default", arguments, "s0", 32, "s1", 30, dtype=dtype),
        *after,
        outputs=outputs,
    )


def test_what_follows_a_convolution_is_computed_in_its_kernel():
    after = (
        call("add", "add.Tensor", ("conv", "y"), "s0", 32, "s1", 30),
        call("relu", "relu.default", ("add",), "s0", 32, "s1", 30),
    )
    filters, text = texts(convolution(*after, outputs=["relu"])).values()
    assert "ks_filters_out" in filters
    assert "y_ptr" in text
    assert "relu_out" in text
    assert "conv_out" not in text


def test_a_convolution_whose_result_is_returned_stores_it():
    after = (call("relu", "relu.default", ("conv",), "s0", 32, "s1", 30),)
    sources = texts(convolution(*after, outputs=["relu", "conv"]))
    assert len(sources) == 3
    assert "conv_out" in sources["convolution_conv"]


@pytest.mark.parametrize(("dtype", "split"), [("float32", True), ("float16", False)])
def test_fp32_convolutions_are_split_into_tf32_products(dtype, split):
    _, text = texts(convolution(outputs=["conv"], dtype=dtype)).values()
    assert ("tf32x3" in text) == split


def test_what_is_multiplied_in_tf32_is_rounded_to_it_once():
    def rounds(text):
        return "& -8192" in text

    first = texts(convolution(outputs=["conv"]), precision="tf32")
    assert {name: rounds(text) for name, text in first.items()} == {"filters_conv": True, "convolution_conv": True}
    last = texts(convolution(outputs=["conv"]), precision="tf32", channels_last=True)
    assert {name: rounds(text) for name, text in last.items()} == {
        "filters_conv": True,
        "last_conv": True,
        "convolution_conv": False,
    }
    assert not any(map(rounds, texts(convolution(outputs=["conv"])).values())), "split where they are multiplied"


def test_what_stands_between_library_convolutions_with_channels_last_is_computed_in_that_order():
    """One kernel each rearranges the input and the filters, one goes from convolution to convolution, one gives the
    result back in order."""
    ones = Items(items=(1, 1))
    again = ("relu", "again_w", None, ones, ones, ones, False, Items(items=(0, 0)), 1)
    shape = ("s0", 32, "s1", 30)
    both = graph(
        *convolution(call("relu", "relu.default", ("conv",), *shape), outputs=["relu"]).nodes[:-1],
        source("again_w", 32, 32, 3, 3),
        call("again", "convolution.default", again, *shape),
        call("sum", "add.Tensor", ("again", "relu"), *shape),
        outputs=["sum"],
    )
    settings = gpu_settings({"templates": False, "channels_last": True})
    plan = gpu_plan(both, settings)
    assert [node.target for node in plan.externs] == ["ks.convolution_last"] * 2
    filters = [["conv_filters_last"], ["again_filters_last"]]
    assert [sorted(kernel.stores) for kernel in plan.kernels] == [["x_last"], *filters, ["relu_last"], ["sum_in_order"]]
    text = generate_triton(graphs.facts(both), both, settings).source
    assert text.count(".permute(0, 2, 3, 1)") == 2 and "torch.ops.aten._convolution.default" in text
    groups = convolution(outputs=["conv"])
    grouped = [structs.replace(n, args=(*n.args[:8], 2)) if n.name == "conv" else n for n in groups.nodes]
    tunables = [
        CODEGEN_BACKENDS["triton"].tunables(made, graphs.HARDWARE, ErrorBounds(5e-3)) for made in (both, groups)
    ]
    assert [values["channels_last"][0] for values in tunables if values] == [True, False], "one alone gains nothing"
    left = gpu_plan(structs.replace(groups, nodes=tuple(grouped)), settings).externs
    assert "ks.convolution_last" not in {node.target for node in left}, "the library is slower there"


@pytest.mark.parametrize("is_viewed", [False, True])
def test_who_goes_by_the_order_of_channels_that_lie_last_reads_a_copy_in_the_usual_order(is_viewed):
    """A convolution in groups would have its channels last, too, and its result be copied; a result stays as it is."""
    ones, shape = Items(items=(1, 1)), ("s0", 32, "s1", 30)
    groups = ("seen" if is_viewed else "relu", "again_w", None, ones, ones, ones, False, Items(items=(0, 0)), 2)
    both = graph(
        *convolution(call("relu", "relu.default", ("conv",), *shape), outputs=["relu"]).nodes[:-1],
        source("again_w", 32, 16, 3, 3),
        call("seen", "flip.default", ("relu", Items(items=(1,))), *shape),
        call("again", "convolution.default", groups, *shape),
        call("sum", "tanh.default", ("again",), *shape),
        call("flat", "view.default", ("relu", Items(items=(-1, 32, 30))), "s0*s1", 32, 30),
        outputs=["sum", "flat"],
    )
    plan = gpu_plan(both, gpu_settings({"templates": False, "channels_last": True}))
    (library,) = (node for node in plan.externs if node.name.startswith("again"))
    assert plan.base_of(library.args[0].name) in {"relu_in_order", "seen_in_order"}
    assert plan.returned == {"sum", "relu_in_order"}
    assert "relu_last" not in {name for kernel in plan.kernels for name in kernel.stores}, "nobody reads it"


def test_transposed_convolutions_have_channels_last_where_there_are_no_others():
    ones = Items(items=(1, 1))
    plain = convolution(call("relu", "relu.default", ("conv",), "s0", 32, "s1", 30), outputs=["relu"])
    alone = structs.replace(
        plain,
        nodes=tuple(
            structs.replace(n, args=(*n.args[:6], True, *n.args[7:])) if n.name == "conv" else n for n in plain.nodes
        ),
    )
    again = ("relu", "again_w", None, ones, ones, ones, False, Items(items=(0, 0)), 1)
    mixed = graph(
        *alone.nodes[:-1],
        source("again_w", 32, 32, 3, 3),
        call("again", "convolution.default", again, "s0", 32, "s1", 30),
        outputs=["again"],
    )
    values = [
        CODEGEN_BACKENDS["triton"].tunables(made, graphs.HARDWARE, ErrorBounds(5e-3))["channels_last"]
        for made in (alone, mixed)
    ]
    assert values == [("transposed_too", False), (True, False, "transposed_too")]
    for value, count in ((True, 1), ("transposed_too", 2)):
        plan = gpu_plan(mixed, gpu_settings({"templates": False, "channels_last": value}))
        assert [node.target for node in plan.externs].count("ks.convolution_last") == count


@pytest.mark.parametrize(
    ("slide", "turns"),
    [
        (Slide(1, 0, 3, True), [0]),
        (Slide(2, 1, 1, True), [0, 1]),
        (Slide(3, 0, 2, True), [0, 2, 1]),
        (Slide(4, 1, 2, True), [0, None, 1, None]),
    ],
)
def test_every_output_of_a_transposed_convolution_meets_only_its_taps(slide, turns):
    """Against the definition: input ``i`` and tap ``t`` meet at ``i * stride - padding + t * dilation``."""
    assert [slide.first(turn) for turn in range(slide.phases)] == turns
    for out in range(40, 60):
        want = {t for t in range(9) if (out + slide.padding - t * slide.dilation) % slide.stride == 0}
        first = slide.first((out + slide.padding) % slide.phases)
        assert want == (set() if first is None else set(range(first, 9, slide.skip)))
        places = [(out + slide.padding - t * slide.dilation) // slide.stride for t in sorted(want)]
        assert all(b - a == slide.move for a, b in itertools.pairwise(places))


def test_drafts_of_an_fp32_convolution_begin_with_pytorchs_and_kernels_around_it():
    after = (call("relu", "relu.default", ("conv",), "s0", 32, "s1", 30),)
    backend = CODEGEN_BACKENDS["triton"]
    for dtype, tunable, first in (("float32", "own_convolutions", False), ("float16", "templates", True)):
        tunables = backend.tunables(convolution(*after, outputs=["relu"], dtype=dtype), graphs.HARDWARE)
        assert tunables[tunable][0] == first


def test_drafts_of_an_fp32_convolution_go_on_with_the_generators_own():
    after = (call("relu", "relu.default", ("conv",), "s0", 32, "s1", 30),)
    proposals = drafts(convolution(*after, outputs=["relu"]), 3)
    assert [(p.config["own_convolutions"], p.config["channels_last"]) for p in proposals] == [
        (False, False),
        (False, True),
        (True, False),
    ]
    assert proposals[2].config["precision"] == "tf32"


@pytest.mark.parametrize(("groups", "fused"), [(64, True), (32, False)])
def test_a_convolution_of_every_channel_by_itself_is_elementwise(groups, fused):
    ones = Items(items=(1, 1))
    arguments = ("x", "w", "b", ones, ones, ones, False, Items(items=(0, 0)), groups)
    made_of = graph(
        source("x", "s0", 64, 30, "s1", dtype="float16"),
        source("w", 64, 1 if fused else 2, 1, "s2", dtype="float16"),
        source("b", 64, dtype="float16"),
        call("conv", "convolution.default", arguments, "s0", 64, 32, "s1 + 3 - s2", dtype="float16"),
        call("relu", "relu.default", ("conv",), "s0", 64, 32, "s1 + 3 - s2", dtype="float16"),
        outputs=["relu"],
    )
    plan = gpu_plan(made_of, gpu_settings({}))
    assert ([node.name for node in plan.externs] == []) == fused
    assert ("s2 == 64" in plan.graph.guards) == fused
    assert ("s2 == 64" in generate_triton(graphs.facts(made_of), made_of, gpu_settings({})).source) == fused
