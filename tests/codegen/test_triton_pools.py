"""What the Triton backend makes of pools: pure, no torch, no compiler. Numbers: ``test_triton_candidates.py``."""

import re

import pytest
from graphs import call, graph, source
from triton_texts import texts

from kernelswarm.codegen.triton.candidate import gpu_plan
from kernelswarm.codegen.triton.tunables import gpu_settings
from kernelswarm.schemas import Items

POOLED = ("s0", 4, "(s1 - 1)//2 + 1", 15)


def pooled(target, *arguments, shape=("s0", 4, "s1//2", 15)):
    sizes = tuple(Items(items=a) if isinstance(a, tuple) else a for a in arguments)
    return graph(
        source("x", "s0", 4, "s1", 30),
        call("pool", target, ("x", *sizes), *shape),
        call("relu", "relu.default", ("pool",), *shape),
        outputs=["relu"],
    )


@pytest.mark.parametrize(
    ("target", "arguments", "loads"),
    [
        ("avg_pool2d.default", ((2, 2), (2, 2)), 4),
        ("avg_pool2d.default", ((2, 2), (2, 2), (0, 0), False, True, 3), 4),
        ("max_pool2d.default", ((2, 2), (2, 2)), 4),
        ("max_pool2d.default", ((2, 3), (2, 2), (0, 1)), 6),
        ("max_pool2d.default", ((3, 3), (2, 2), (0, 0), (1, 1), True), 9),
    ],
)
def test_pools_are_read_tap_by_tap_and_fuse_with_what_follows(target, arguments, loads):
    (text,) = texts(pooled(target, *arguments)).values()
    assert text.count("tl.load(x_ptr") == loads
    assert "evict_first" not in text
    assert "relu_out" in text


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("avg_pool2d.default", ((2, 2), (2, 2), (1, 1), False, False)),
        ("avg_pool2d.default", ((2, 2), (2, 2), (0, 0), True)),
        ("max_pool2d.default", ((9, 9), (2, 2))),
        ("avg_pool2d.default", ((11, 11), (11, 11))),
    ],
)
def test_other_pools_are_left_to_pytorch(target, arguments):
    plan = gpu_plan(pooled(target, *arguments), gpu_settings({}))
    assert [node.name for node in plan.externs] == ["pool"]


def test_what_lies_around_a_padded_tensor_is_what_a_load_has_where_it_reads_nothing():
    (text,) = texts(pooled("max_pool2d.default", (3, 3), (2, 2), (1, 1))).values()
    assert text.count('other=float("-inf")') == 9
    assert "other=0" not in text and "tl.where(" not in text


def test_a_sum_over_windows_has_few_elements_a_thread():
    (text,) = texts(pooled("avg_pool2d.default", (3, 3), (2, 2))).values()
    assert "tl.arange(0, 256)" in text
    (text,) = texts(pooled("avg_pool2d.default", (2, 2), (2, 2))).values()
    assert "tl.arange(0, 512)" in text


def test_conditions_on_rows_and_on_columns_are_put_together_apart():
    """Each is a row or a column of the tile: only the two results have to be one of its size."""
    (text,) = texts(pooled("max_pool2d.default", (3, 3), (2, 2), (1, 1)), pointwise="tile").values()
    masks = re.findall(r"mask=\(row_mask & (.*?)\) & \(col_mask & (.*?)\), other", text)
    assert len(masks) == 9
    assert all("rows" in rows and "cols" not in rows and "rows" not in cols for rows, cols in masks)


def test_what_is_the_same_for_all_taps_is_read_once():
    shape = ("s0", 4, "s1", 30)
    pooled_graph = graph(
        source("x", *shape),
        source("w", 4, 1, 1),
        call("scaled", "mul.Tensor", ("x", "w"), *shape),
        call("pool", "max_pool2d.default", ("scaled", *(Items(items=a) for a in ((3, 3), (2, 2), (1, 1)))), *POOLED),
        outputs=["pool"],
    )
    (text,) = texts(pooled_graph).values()
    assert text.count("tl.load(x_ptr") == 9
    assert text.count("tl.load(w_ptr") == 1
    assert re.search(r"tl.load\(w_ptr.*mask=col_mask, ", text)


def test_padding_around_what_is_the_same_along_it_stays():
    shape = ("s0", 4, 32)
    padded_graph = graph(
        source("x", "s0", 4, 30),
        source("w", 4, 1),
        call("wide", "expand.default", ("w", Items(items=("s0", 4, 30))), "s0", 4, 30),
        call("padded", "constant_pad_nd.default", ("wide", Items(items=(1, 1)), 3.0), *shape),
        outputs=["padded"],
    )
    (text,) = texts(padded_graph).values()
    assert re.search(r"tl.load\(w_ptr.* < .*other=3.0", text)
