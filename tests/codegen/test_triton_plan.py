"""What the Triton backend makes of a graph: pure, no torch, no compiler. Numbers: ``test_triton_candidates.py``."""

from dataclasses import replace
from types import SimpleNamespace

import graphs
import pytest
from graphs import call, graph, last, meta, source
from msgspec import structs
from triton_texts import drafts, launches, texts

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.ir.build import load
from kernelswarm.codegen.ir.poly import poly
from kernelswarm.codegen.ir.printing import python_poly
from kernelswarm.codegen.ir.scalar import Scalar
from kernelswarm.codegen.ir.tunables import complete
from kernelswarm.codegen.triton.candidate import generate_triton, gpu_plan
from kernelswarm.codegen.triton.drafts import GPU_STARTS
from kernelswarm.codegen.triton.mutations import GPU_MUTATIONS
from kernelswarm.codegen.triton.power_of_two_split import row_split_of
from kernelswarm.codegen.triton.prepare import Sizes
from kernelswarm.codegen.triton.products import products, tiles_of
from kernelswarm.codegen.triton.scope import Axis
from kernelswarm.codegen.triton.tunables import GPU_DOMAINS, gpu_settings
from kernelswarm.schemas import Accelerator, Items, Node, Ref


def layernorm(dtype="float32"):
    statistics = Node(
        name="var_mean",
        op="call",
        target="aten.var_mean.correction",
        args=(Ref(name="x"), last()),
        kwargs={"correction": 0, "keepdim": True},
        values=(meta("s0", 1), meta("s0", 1)),
    )
    parts = [
        Node(name=n, op="call", target="operator.getitem", args=(Ref(name="var_mean"), i), values=(meta("s0", 1),))
        for i, n in enumerate(("var", "mean"))
    ]
    return graph(
        source("x", "s0", "s1", dtype=dtype),
        source("w", "s1", dtype=dtype),
        statistics,
        *parts,
        call("sub", "sub.Tensor", ("x", "mean"), "s0", "s1"),
        call("rsqrt", "rsqrt.default", ("var",), "s0", 1),
        call("mul", "mul.Tensor", ("sub", "rsqrt"), "s0", "s1"),
        call("scaled", "mul.Tensor", ("mul", "w"), "s0", "s1", dtype=dtype),
        outputs=["scaled"],
    )


# Indices


def test_a_linear_index_is_taken_apart_by_sizes_that_are_sums():
    sizes = tuple(poly(text) for text in ("s0", "s1 + 2", "s2 + 1"))
    index_texts = Axis("cols", ("i0", "i1", "i2"), sizes, "").texts(python_poly)
    values = {"s0": 3, "s1": 2, "s2": 4}
    for cols in range(3 * 4 * 5):
        digits = [eval(index_texts[name], {}, {**values, "cols": cols}) for name in ("i0", "i1", "i2")]
        assert digits == [cols // 20, cols // 5 % 4, cols % 5]


# Rows


def test_a_row_in_registers_is_read_once_and_its_weights_stay_in_the_cache():
    (text,) = texts(layernorm()).values()
    assert text.count("tl.load(x_ptr") == 1
    (read,) = [line for line in text.splitlines() if "tl.load(x_ptr" in line]
    (weights,) = [line for line in text.splitlines() if "tl.load(w_ptr" in line]
    assert "evict_first" in read
    assert "evict_last" in weights


@pytest.mark.parametrize("decides", ["log.default", "relu.default"])
def test_gates_on_which_something_decides_may_be_subnormal(decides):
    gates = graph(
        source("x", "s0", "s1"),
        call("top", "amax.default", ("x", last(), True), "s0", 1),
        call("far", "sub.Tensor", ("x", "top"), "s0", "s1"),
        call("exp", "exp.default", ("far",), "s0", "s1"),
        call("total", "sum.dim_IntList", ("exp", last(), True), "s0", 1),
        call("shares", "div.Tensor", ("exp", "total"), "s0", "s1"),
        call("decided", decides, ("shares",), "s0", "s1"),
        outputs=["decided"],
    )
    (accurate,), (fast,) = texts(gates, math="accurate").values(), texts(gates).values()
    assert ("ks_exp(" in accurate) == (decides == "log.default")
    assert "tl.exp(" in fast


def test_a_row_in_blocks_stays_in_the_cache_until_it_is_read_for_the_last_time():
    (text,) = texts(layernorm(), row="loop", block=2048).values()
    reads = [line for line in text.splitlines() if "tl.load(x_ptr" in line]
    assert ["evict_last" in line for line in reads] == [True, True, False]
    assert "evict_first" in reads[-1]
    assert "evict" not in "".join(texts(layernorm(), row="loop", evict=False).values())


def test_welford_reads_a_row_in_blocks_once_before_it_is_written():
    def reads(**config):
        (text,) = texts(layernorm(), **config).values()
        return text.count("tl.load(x_ptr")

    assert reads(row="loop", variance="two_pass") == 3
    assert reads(row="loop", variance="welford") == 2
    assert reads(variance="welford") == reads(variance="two_pass") == 1


def test_statistics_in_parts_read_what_lies_in_memory_once():
    columns = graph(
        source("x", "s1", "s2"),
        call("var", "var.correction", ("x", Items(items=(0,))), "s2", correction=0),
        outputs=["var"],
    )
    kernels = {way: list(texts(columns, variance=way).values()) for way in ("two_pass", "welford")}
    assert [sum(text.count("tl.load(x_ptr") for text in way) for way in kernels.values()] == [2, 1]
    assert [len(way) for way in kernels.values()] == [4, 2]


@pytest.mark.parametrize(("dtype", "warps"), [("float32", 16), ("bfloat16", 8)])
def test_warps_go_by_the_bytes_of_a_row(dtype, warps):
    source_graph = layernorm(dtype)
    text = generate_triton(graphs.facts(source_graph), source_graph, gpu_settings({})).source
    assert f"'num_warps': {warps}" in text


def test_a_persistent_program_may_fetch_its_next_rows():
    (text,) = texts(graphs.softmax(), persistent=2, stages=3).values()
    assert "num_stages=3" in text
    (text,) = texts(graphs.softmax(), persistent=2).values()
    assert "num_stages" not in text


def test_a_row_far_below_a_power_of_two_may_be_split_into_powers_of_two():
    row = graph(
        source("x", "s0", 5120),
        call("total", "sum.dim_IntList", ("x", last(), True), "s0", 1),
        call("div", "div.Tensor", ("x", "total"), "s0", 5120),
        outputs=["div"],
    )
    (text,) = texts(row, pieces="all").values()
    assert text.count("tl.load(x_ptr") == 2
    assert "tl.arange(0, 4096)" in text
    assert "tl.arange(0, 1024)" in text
    assert texts(row, pieces="products") == texts(row, pieces="none")


@pytest.mark.parametrize(
    ("length", "row_split"),
    [(160, (128, 32)), (200, (128, 64, 16)), (96, (64, 32)), (128, ()), (250, ()), (5120, (4096, 1024)), (1, ())],
)
def test_row_splits_cover_a_row_and_are_clearly_shorter_than_one_power_of_two(length, row_split):
    assert row_split_of(length) == row_split


# Products


def test_reductions_behind_a_product_take_no_wider_tile_than_they_need():
    made_of = graph(
        source("x", "s0", 64, dtype="float16"),
        source("w", 64, 160, dtype="float16"),
        call("mm", "mm.default", ("x", "w"), "s0", 160, dtype="float16"),
        call("total", "sum.dim_IntList", ("mm", last(), True), "s0", 1, dtype="float16"),
        call("div", "div.Tensor", ("mm", "total"), "s0", 160, dtype="float16"),
        outputs=["div"],
    )
    (text,) = texts(made_of).values()
    assert text.count("tl.dot") == 2
    (text,) = texts(made_of, pieces="none").values()
    assert text.count("tl.dot") == 1


def test_split_k_adds_its_parts_up_in_a_second_kernel_that_goes_on_with_them():
    kernels = launches(graphs.matmul_relu(), split_k=4)
    assert list(kernels) == ["product_mm", "kernel1"]
    assert kernels["product_mm"].grid[2] == "4"
    relu = texts(graphs.matmul_relu(), split_k=4)["kernel1"]
    assert relu.count("tl.load(mm_parts_ptr") == 4
    assert "maximum" in relu
    assert "atomic" not in relu


def test_large_fp32_products_are_made_of_operands_that_are_split_beforehand():
    def product(m, k, n, dtype="float32"):
        return graph(
            source("x", m, k, dtype=dtype),
            source("w", k, n, dtype=dtype),
            call("mm", "mm.default", ("x", "w"), m, n, dtype=dtype),
            outputs=["mm"],
        )

    sources = texts(product(1024, 512, 2048))
    assert list(sources) == ["halves_mm_left", "halves_mm_right", "product_mm"]
    # Each block's sum begins at zero: matrix units keep few bits of a long one.
    sums = sources["product_mm"].partition("if tl.max")[0]
    assert sums.count("tl.dot") == 3 and "acc = tl.dot" not in sums
    for options in ({"halves": False}, {"precision": "ieee"}, {"stream_k": True}):
        assert "halves_mm_left" not in texts(product(1024, 512, 2048), **options)
    assert "halves_mm_left" not in texts(product(64, 4096, 4096)), "reading the weights again would cost more"
    assert "halves_mm_left" in texts(product(32768, 64, 32768)), "short sums are worth it where there are many"
    assert "halves_mm_left" not in texts(product(1024, 64, 2048)), "two more launches would cost more"
    # No stage more than shared memory holds, no tile larger than registers do, two small programs side by side.
    for config, stages in (({"tile_n": 256, "stages": 5}, 3), ({"tile_m": 64, "warps": 4, "stages": 5}, 2)):
        launch = launches(product(1024, 512, 2048), split_k=1, **config)["product_mm"]
        assert launch.options["num_stages"] == stages
    assert "halves_mm_left" not in texts(product(1024, 512, 2048, "float16"), plain="all")


def test_a_product_is_split_by_itself_where_few_tiles_have_long_sums():
    def product(m, k, n):
        return graph(
            source("x", m, k, dtype="float16"),
            source("w", k, n, dtype="float16"),
            call("mm", "mm.default", ("x", "w"), m, n, dtype="float16"),
            call("relu", "relu.default", ("mm",), m, n, dtype="float16"),
            outputs=["relu"],
        )

    assert len(texts(product(16, 4096, 1024))) == 2
    assert len(texts(product(16, 4096, 1024), split_k=1)) == 1
    assert len(texts(product(16, 128, 1024))) == 1
    assert len(texts(product(4096, 4096, 4096))) == 1


def test_stream_k_finishes_what_was_cut_in_a_second_kernel():
    sources = texts(graphs.matmul_relu(), stream_k=True)
    assert list(sources) == ["kernel1", "kernel1_end"]
    assert all("maximum" in sources[name] for name in ("kernel1", "kernel1_end"))
    assert "tl.dot" not in sources["kernel1_end"]


def test_what_comes_before_a_product_is_computed_on_its_tiles_where_few_need_it():
    ((name, text),) = texts(graphs.matmul_relu(), split_k=1).items()
    assert "* 2.0" in text
    assert list(texts(graphs.matmul_relu(), split_k=1, prologue="none")) == [name, "kernel0"]


def test_what_comes_before_a_product_is_stored_where_others_read_it():
    made_of = graph(
        source("x", "s0", "s1"),
        source("w", "s1", "s2"),
        call("scaled", "mul.Tensor", ("x", 2.0), "s0", "s1"),
        call("mm", "mm.default", ("scaled", "w"), "s0", "s2"),
        outputs=["mm", "scaled"],
    )
    assert "kernel0" in texts(made_of)


# Drafts


def test_every_start_and_every_move_is_made_of_known_tunables():
    configs = [
        *GPU_STARTS,
        *({name: v} for mutations in GPU_MUTATIONS.values() for name, values in mutations for v in values),
    ]
    assert {name for config in configs for name in config} <= GPU_DOMAINS.keys()


@pytest.mark.parametrize("make", [graphs.softmax, layernorm, graphs.matmul_relu])
def test_drafts_begin_with_the_default_and_the_starts(make):
    tunables = CODEGEN_BACKENDS["triton"].tunables(make(), graphs.HARDWARE)
    proposals = drafts(make(), 24)
    for proposal in proposals:
        compile(proposal.source, "candidate", "exec")
    starts = [complete(config, tunables) for config in GPU_STARTS if config.keys() <= tunables.keys()]
    assert proposals[0].config == complete({}, tunables)
    # One that changes nothing of the text is no draft: statistics of rows that are held whole.
    assert any(start in [p.config for p in proposals[1:3]] for start in starts[:2])


def test_the_second_draft_of_products_leaves_them_to_the_library():
    first, second = drafts(graphs.matmul_relu(), 2)
    assert first.config["templates"] and not second.config["templates"]
    assert "tl.dot(" in first.source and "tl.dot(" not in second.source


def test_sizes_of_the_device_come_from_its_facts():
    device = Accelerator(index=0, name="NVIDIA A10", uuid="", target="sm_86", memory_bytes=24 << 30, multiprocessors=72)
    small = structs.replace(graphs.HARDWARE, accelerators=(device,))
    total = graph(source("x", "s0", "s1"), call("sum1", "sum.default", ("x",)), outputs=["sum1"])
    backend = CODEGEN_BACKENDS["triton"]
    assert backend.tunables(total, small)["split"] == (0, 1, 64, 144, 576)
    assert backend.tunables(total, graphs.HARDWARE)["split"] == (0, 1, 64, 264, 1056)
    sources = [backend.source(graphs.facts(total), total, {}, facts) for facts in (small, graphs.HARDWARE)]
    assert sources[0] != sources[1]


def test_what_makes_an_operand_on_its_tiles_takes_shared_memory_as_well():
    """The pool before LeNet5's first product has four tiles on their way for each of the operand's."""
    plan = gpu_plan(graphs.matmul_relu(), gpu_settings({}))
    sizes = Sizes({name: symbol.example for name, symbol in plan.graph.symbols.items()})
    (matmul,) = products(plan, sizes, gpu_settings({}), set())
    loads = [load(f"x{number}", "float32", poly("i0")) for number in range(12)]
    pool = Scalar("max", "float32", tuple(loads))
    kernel = SimpleNamespace(roots=lambda: [pool])
    pooled = replace(matmul, before=(("left", SimpleNamespace(kernel=kernel)),))
    alone, together = (tiles_of(made, sizes, gpu_settings({})) for made in (matmul, pooled))
    assert together.stages < alone.stages
    assert together.stages * (12 * together.m + together.n) * together.k * 4 <= 232_448 or together.stages == 1


def test_what_a_part_of_a_concatenation_has_in_common_is_not_read_for_the_other_parts():
    """Without the part's mask, rows of another part would read before the beginning of memory or behind its end."""
    ends, both = ("s0", 1), ("2*s0", "s1")
    made_of = graph(
        source("x", "s0", "s1"),
        source("scale", *ends),
        call("root", "rsqrt.default", ("scale",), *ends),
        call("scaled", "mul.Tensor", ("x", "root"), "s0", "s1"),
        call("both", "cat.default", (Items(items=(Ref(name="scaled"), Ref(name="x"))),), *both),
        call("mean", "mean.dim", ("both", last(), True), "2*s0", 1),
        call("out", "sub.Tensor", ("both", "mean"), *both),
        outputs=["out"],
    )
    parts = texts(made_of, split=4)
    loads = [line for text in parts.values() for line in text.splitlines() if "tl.load(scale_ptr" in line]
    assert len(parts) == 3 and len(loads) == 2
    assert not any("mask=row_mask," in line for line in loads)


@pytest.mark.parametrize(
    ("channels", "places", "loads", "tile"),
    [
        (128, 64516, 1, (64, 128)),
        (16, 53816, 1, (16, 256)),
        (3, 50176, 1, (4, 1024)),
        (64516, 128, 1, (128, 64)),
        (15876, 64, 1, (128, 64)),
        (50176, 3, 1, (512, 4)),
        (128, 64516, 5, (32, 128)),
    ],
)
def test_what_is_read_across_memory_is_written_in_long_pieces_as_well(channels, places, loads, tile):
    """And its sectors stay in the caches until others have read their part: letting them go cost 15 %."""
    names = [f"x{number}" for number in range(loads)]
    sums = [
        call(f"sum{n}", "add.Tensor", (f"sum{n - 1}" if n > 1 else "p", names[n]), 32, channels, places)
        for n in range(1, loads)
    ]
    result = f"sum{loads - 1}" if loads > 1 else "p"
    source_graph = graph(
        source(names[0], 32, places, channels),
        *(source(name, 32, channels, places) for name in names[1:]),
        call("p", "permute.default", (names[0], Items(items=(0, 2, 1))), 32, channels, places),
        *sums,
        call("relu", "relu.default", (result,), 32, channels, places),
        outputs=["relu"],
    )
    (text,) = texts(source_graph).values()
    assert f"tl.arange(0, {tile[0]})[:, None]" in text and f"tl.arange(0, {tile[1]})[None, :]" in text
    assert "evict" not in text
