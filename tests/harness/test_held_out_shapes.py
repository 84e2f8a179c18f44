"""Shapes that a problem does not name are made up: a candidate is right there, or says that it is not."""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.harness.inputs.held_out import (
    HELD_OUT,
    HELD_OUT_ALIKE,
    HELD_OUT_FIRST,
    HELD_OUT_VARIANTS,
    LARGER,
    LARGER_ALIKE,
    LARGER_FIRST,
    LARGER_VARIANTS,
    MOST_FACTOR,
    MOST_GROWTH,
    NO_SIZES,
    ONE_SHAPE,
    bases,
    in_words,
    made_up,
)
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import InputKind, Problem, Verdict, VerifyReport

NAMED = {"main": {"rows": 2048, "cols": 4096}, "ragged": {"rows": 37, "cols": 1000}, "thin": {"rows": 129, "cols": 1}}
HEADS = {
    "main": {"batch": 2, "heads": 32, "kept": 8, "size": 128},
    "less": {"batch": 3, "heads": 6, "kept": 2, "size": 80},
}
SEEDS = range(200)


def _all(named: dict[str, dict[str, int]], base: str, variant: str = HELD_OUT, size: int = 1) -> list[dict[str, int]]:
    shapes = [made_up(named, base, variant, size, seed) for seed in SEEDS]
    return [shape for shape in shapes if shape is not None]


@pytest.mark.parametrize("base", ["main", "ragged"])
def test_every_size_is_odd_near_and_no_multiple_of_a_named_one(base: str) -> None:
    shapes = _all(NAMED, base)

    assert len(shapes) == len(SEEDS) and len({in_words(shape) for shape in shapes}) > 100
    for shape in shapes:
        for name, value in shape.items():
            named_sizes = {sizes[name] for sizes in NAMED.values()}
            assert value % 2 and not any(value % size == 0 for size in named_sizes if size > 1)
            assert NAMED[base][name] // 2 - 1 <= value <= NAMED[base][name]


def test_what_is_one_stays_one() -> None:
    assert {shape["cols"] for shape in _all(NAMED, "thin")} == {1}


def test_large_shapes_are_made_small_from_the_first_size_on() -> None:
    for shape in _all(NAMED, "main", size=2048 * 4096 * 4):
        assert shape["rows"] <= 64 and shape["cols"] >= 2048


def test_equal_sizes_stay_equal_and_order_stays() -> None:
    square = {"main": {"left": 64, "right": 64, "wide": 512}, "less": {"left": 7, "right": 7, "wide": 7}}
    for shape in _all(square, "main", size=1 << 24):
        assert shape["left"] == shape["right"] <= shape["wide"]


def test_what_the_named_ones_have_in_common_can_be_kept() -> None:
    for shape in _all(HEADS, "main", HELD_OUT_ALIKE):
        assert shape["heads"] % shape["kept"] == 0 and shape["kept"] % 2 == 0 and shape["size"] % 16 == 0
        assert shape["batch"] not in (2, 3)


def test_the_first_size_alone_can_be_changed() -> None:
    for shape in _all(HEADS, "less", HELD_OUT_FIRST):
        assert shape["batch"] not in (2, 3) and {**shape, "batch": 3} == HEADS["less"]


def test_there_may_be_none() -> None:
    assert made_up({}, "main", HELD_OUT, 1, 1) is None
    assert made_up({"main": {"flag": 1}}, "main", HELD_OUT, 1, 1) is None
    assert made_up(NAMED, "main", HELD_OUT_ALIKE, 1, 1) is None, "they have nothing in common"
    assert made_up({"main": {"n": 99}}, "main", HELD_OUT_FIRST, 1, 1) is None, "there is but one, and it was tried"


def test_they_are_made_from_a_small_shape_and_the_timed_one() -> None:
    timed = [("main", HELD_OUT_VARIANTS), ("main", LARGER_VARIANTS)]
    sizes = {"main": 1 << 30, "a": 10, "b": 20, "c": 1 << 25}
    assert bases(sizes, {"main": False}) == [("b", HELD_OUT_VARIANTS), *timed]
    assert bases({"main": 1 << 20, "c": 1 << 25}, {"main": False}) == [("c", HELD_OUT_VARIANTS), *timed]
    assert bases({"main": 1}, {"main": False}) == timed
    assert bases({"main": 1}, {"main": True}) == timed[:1]


def test_one_size_is_larger_than_at_the_timed_shape() -> None:
    shapes = _all(NAMED, "main", LARGER)

    assert {name for shape in shapes for name in shape if shape[name] != NAMED["main"][name]} == {"rows", "cols"}
    for shape in shapes:
        ((name, size),) = [(name, size) for name, size in shape.items() if size != NAMED["main"][name]]
        assert 1 < size / NAMED["main"][name] <= MOST_FACTOR and size % 2


@pytest.mark.parametrize("size", [1 << 10, 1 << 24, 1 << 29])
def test_a_larger_shape_takes_little_more_memory(size: int) -> None:
    square = {"main": {"side": 4096, "other": 4096}, "less": {"side": 60, "other": 60}}
    for named in (NAMED, square):
        main = named["main"]
        for shape in _all(named, "main", LARGER, size):
            factor = math.prod(shape.values()) / math.prod(main.values())
            assert 1 < factor <= MOST_FACTOR and (factor - 1) * size <= MOST_GROWTH


def test_a_larger_shape_can_keep_what_the_named_ones_have_in_common() -> None:
    for shape in _all(HEADS, "main", LARGER_ALIKE):
        assert shape["heads"] % shape["kept"] == 0 and shape["size"] % 16 == 0 and shape != HEADS["main"]
    for shape in _all(HEADS, "main", LARGER_FIRST):
        assert shape["batch"] > 2 and {**shape, "batch": 2} == HEADS["main"]


def test_what_cannot_grow_by_little_stays() -> None:
    assert made_up({"main": {"batch": 2}}, "main", LARGER, 1 << 30, 1) is None


HEAD = """
import torch
shapes = {"main": dict(rows=32, cols=300), "ragged": dict(rows=9, cols=100)}
def inputs(generator, rows, cols): return [torch.randn(rows, cols, generator=generator)]
def reference(x): return x.softmax(-1)
"""
NAMES = "x.shape in ((32, 300), (9, 100))"

Judge = Callable[[str], Awaitable[VerifyReport]]


@pytest.fixture
def judge(device: Device, tmp_path: Path) -> Judge:
    async def judge(body: str) -> VerifyReport:
        source = f"import os, torch\nstate = []\ndef kernel(x):\n    {body}\n    return torch.softmax(x, -1)\n"
        report, _ = await device.compile(source, "cpp")
        return await device.verify(_problem(tmp_path, HEAD), source, report)

    return judge


def _problem(folder: Path, source: str) -> Problem:
    path = folder / "mine.py"
    path.write_text(source)
    return load_problem(path)


WRONG = {
    "wrong numbers": (f"if not {NAMES}: return x.clone()", Verdict.wrong_numbers),
    "zeros": (f"if not {NAMES}: return torch.zeros_like(x)", Verdict.wrong_numbers),
    "another shape": (f"if not {NAMES}: return torch.softmax(x, -1)[:, :1]", Verdict.wrong_shape),
    "another type": (f"if not {NAMES}: return torch.softmax(x, -1).double()", Verdict.wrong_type),
    "ends": (f"if not {NAMES}: os._exit(3)", Verdict.crash),
    "is broken once it has refused": (
        f"if not {NAMES}: state.append(x); raise ValueError('no such shape')\n    if state: return x.clone()",
        Verdict.wrong_numbers,
    ),
    "its device fails": (
        f"if not {NAMES}: state.append(x)\n    if state: raise RuntimeError('CUDA error: illegal memory access')",
        Verdict.runtime_error,
    ),
}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", WRONG)
async def test_wrong_elsewhere_is_wrong(judge: Judge, name: str) -> None:
    body, verdict = WRONG[name]

    report = await judge(body)

    assert report.verdict is verdict, report.evidence
    assert report.evidence is not None
    assert "a shape that the problem does not name" in report.evidence.message
    if "refused" in report.evidence.message:
        assert report.evidence.shape == "ragged" and report.evidence.inputs == ""
    else:
        assert report.evidence.shape.startswith("rows=") and report.evidence.inputs == HELD_OUT


@pytest.mark.asyncio(loop_scope="session")
async def test_a_kernel_may_say_that_it_takes_no_other_shapes(judge: Judge) -> None:
    report = await judge(f"if not {NAMES}: raise ValueError(f'not for {{list(x.shape)}}')")

    assert report.verdict is Verdict.correct, report.evidence
    assert len(report.declined) == 3 and all("ValueError: not for [" in reason for reason in report.declined)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_shape_that_a_verdict_has_named_is_replaced(judge: Judge) -> None:
    before, again = await judge("pass"), await judge("pass")
    wrong = await judge(f"if not {NAMES}: return x.clone()")
    after = await judge("pass")

    held_out_shapes = [
        {case.shape for case in report.cases if case.inputs == HELD_OUT} for report in (before, again, after)
    ]
    assert wrong.evidence is not None and wrong.evidence.shape in held_out_shapes[0]
    assert held_out_shapes[0] == held_out_shapes[1] and len(held_out_shapes[0]) == 2
    assert not held_out_shapes[0] & held_out_shapes[2] and len(held_out_shapes[2]) == 2
    assert not before.declined


VALIDATED = {
    "all sizes": ("softmax(-1)", [(HELD_OUT, "")], {}),
    "even sizes": (
        "view(-1, 2).sum(-1)",
        [(HELD_OUT, "the problem refuses rows="), (HELD_OUT_ALIKE, "")],
        {"rows": "9, cols=100", "to": "8, cols=100"},
    ),
    "the first size": (
        "add(torch.arange(300.0 if x.shape[1] == 300 else 100.0))",
        [(HELD_OUT, "the problem refuses rows="), (HELD_OUT_ALIKE, "the problem refuses rows="), (HELD_OUT_FIRST, "")],
        {},
    ),
    "no other": (
        "mul(2) if x.shape in ((32, 300), (9, 100)) else 1 / 0",
        [(HELD_OUT, "refuses"), (HELD_OUT_ALIKE, "refuses"), (HELD_OUT_FIRST, "refuses")],
        {},
    ),
    "of other dimensions": (
        "mul(2) if x.shape[0] in (9, 32) else x[0]",
        [(HELD_OUT, "types or dimensions"), (HELD_OUT_ALIKE, "dimensions"), (HELD_OUT_FIRST, "dimensions")],
        {},
    ),
    "not a number": (
        "mul(2) if x.shape[0] in (9, 32) else x / 0 * 0",
        [(HELD_OUT, "not a number"), (HELD_OUT_ALIKE, "not a number"), (HELD_OUT_FIRST, "not a number")],
        {},
    ),
}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("name", VALIDATED)
async def test_problem_validation_tries_them_and_says_which_are_used(device: Device, tmp_path: Path, name: str) -> None:
    answer, expected, change = VALIDATED[name]
    source = HEAD.replace("softmax(-1)", answer)
    source = source.replace(f"rows={change['rows']}", f"rows={change['to']}") if change else source

    facts = await device.validate_problem(_problem(tmp_path, source))

    for shape in ("ragged", "main"):
        variants = [
            variant for variant in facts.input_kinds if variant.shape == shape and variant.name in HELD_OUT_VARIANTS
        ]
        assert [variant.name for variant in variants] == [variant for variant, _ in expected], variants
        for variant, (_, why) in zip(variants, expected, strict=True):
            assert why in variant.refused and bool(why) is bool(variant.refused)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_kernel_that_is_wrong_on_more_than_the_timed_shape_is_wrong(judge: Judge) -> None:
    right, wrong = await judge("pass"), await judge("if x.numel() > 32 * 300: return torch.zeros_like(x)")

    assert LARGER in {case.inputs for case in right.cases}
    assert wrong.verdict is Verdict.wrong_numbers
    assert wrong.evidence is not None and wrong.evidence.inputs == LARGER


@pytest.mark.asyncio(loop_scope="session")
async def test_what_has_one_shape_keeps_it(device: Device, tmp_path: Path) -> None:
    model = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return torch.exp(x)\n"
        "def get_inputs(): return [torch.randn(7, 9)]\ndef get_init_inputs(): return []\n"
    )
    text = HEAD.replace("rows=32, cols=300", "rows='32', cols='300'").replace("rows=9, cols=100", "rows='9', cols='10'")
    text = text.replace("randn(rows, cols,", "randn(int(rows), int(cols),")

    assert await _last_of(device, _problem(tmp_path, model)) == InputKind(
        name=HELD_OUT, shape="main", refused=ONE_SHAPE
    )
    assert await _last_of(device, _problem(tmp_path, text)) == InputKind(name=HELD_OUT, shape="main", refused=NO_SIZES)


async def _last_of(device: Device, problem: Problem) -> InputKind:
    return (await device.validate_problem(problem)).input_kinds[-1]
