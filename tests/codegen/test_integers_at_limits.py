"""Integers at their limits, as eager has them: indices below zero, divisors of zero, sums that wrap around."""

import importlib.util

import pytest
import torch
import torch.nn.functional as F

from kernelswarm.codegen.cpp.candidate import generate
from kernelswarm.codegen.ir.tunables import settings
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.schemas import ProblemFacts, Work

INDEXED = {
    "cross_entropy": lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1),
    "gather": lambda x, i: x.gather(1, i[:, None]) * 2,
    "index_select": lambda x, i: x.index_select(1, i) * 2,
    "embedding": lambda x, i: F.embedding(i, x) * 2,
    "index": lambda x, i: x[:, i] * 2,
    "index_copy": lambda x, i: x.index_copy(0, i, x[: len(i)] * 2),
    "index_fill": lambda x, i: x.index_fill(0, i, 0.5) * 2,
    "index_add": lambda x, i: torch.zeros(6).index_add(0, i, x[: len(i), 0]),
    "index_put": lambda x, i: x.index_put((i,), x[: len(i)] * 2, accumulate=True) * 2,
}
CLASSES = {
    "one number": lambda x, i: F.one_hot(i, 6) * 2,
    "planes": lambda x, i: (F.one_hot(i.view(2, 3), 6).permute(2, 0, 1) * x[:, :1, None]).sum((1, 2)),
    "a size": lambda x, i: (F.one_hot(i, x.shape[1]).float() * x).sum(-1),
}
LEAST = -(2**31)
NUMBERS = {
    "floor division": (lambda a, b: a // b * 2, [(7, 2), (-7, 2), (7, 0), (LEAST, -1)]),
    "remainder": (lambda a, b: a % b + 1, [(7, 2), (-7, 2), (7, 0), (LEAST, -1)]),
    "by a constant": (lambda a, b: a // -3 + b % 7 + torch.div(a, 5, rounding_mode="trunc"), [(7, 2), (LEAST, -1)]),
    "more than the largest": (
        lambda a, b: (a + b < a, (2 * a + 2 * b) // 2, a - b > a),
        [(2**31 - 5, 100), (LEAST, 1)],
    ),
    "no larger number": (
        lambda a, b: ((a + 1 > a) ^ (b * b >= 0), -a > 0, a.abs() < 0),
        [(2**31 - 1, 50_000), (LEAST, 1)],
    ),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def kernel_of(function, inputs, folder):
    graph = capture(function, inputs)
    work = Work(read_bytes=1, write_bytes=1, flops=1)
    facts = ProblemFacts(
        signature=(), shapes=(), graph=graph, work=work, dtype="float32", float64_oracle=True, is_module=False
    )
    path = folder / "candidate.py"
    path.write_text(generate(facts, graph, settings({})).source)
    spec = importlib.util.spec_from_file_location("candidate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def assert_alike(kernel, function, inputs):
    try:
        expected = function(*inputs)
    except (IndexError, RuntimeError):
        # ATen's, of whatever operator the reference's was taken apart into.
        with pytest.raises((IndexError, RuntimeError), match=r"out of (range|bounds|DATA bounds)|ZeroDivisionError"):
            kernel(*inputs)
    else:
        torch.testing.assert_close(kernel(*inputs), expected)


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_below_zero_is_what_it_is_for_the_reference(name, tmp_path):
    function, x, indices = INDEXED[name], torch.randn(6, 10), torch.tensor([0, 3, 5, 1, 2, 4])
    kernel = kernel_of(function, [x, indices], tmp_path)
    assert_alike(kernel, function, [x, indices])
    indices[3] = -1
    assert_alike(kernel, function, [x, indices])


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_out_of_range_is_an_error(name, tmp_path):
    function, x = CLASSES[name], torch.randn(6, 6)
    kernel = kernel_of(function, [x, torch.arange(6)], tmp_path)
    for number in (5, 6, -1, 10_000):
        assert_alike(kernel, function, [x, torch.tensor([0, 3, number, 1, 2, 4])])


COUNTED = {
    "embedding": lambda x, table: F.embedding(torch.arange(x.shape[1])[None].expand(x.shape[0], -1), table) + x,
    "index": lambda x, table: table[torch.arange(x.shape[1] - 1, -1, -1)] * x,
    "index_select": lambda x, table: table.index_select(0, torch.arange(2, x.shape[1])) * x[:, 2:],
    "gather": lambda x, table: table.gather(0, torch.arange(x.shape[1])[:, None].expand(-1, 3)) * x,
}


@pytest.mark.parametrize("name", COUNTED)
def test_rows_that_are_counted_are_there_or_an_error(name, tmp_path):
    function, table = COUNTED[name], torch.randn(8, 3)
    kernel = kernel_of(function, [torch.randn(2, 5, 3), table], tmp_path)
    for length in (4, 8, 9):
        assert_alike(kernel, function, [torch.randn(2, length, 3), table])


def test_a_divisor_that_is_0_in_the_dividend_s_type_is_an_error(tmp_path):
    def function(x):
        return x // 256 + 1

    given = torch.arange(16, dtype=torch.uint8)
    assert_alike(kernel_of(function, [given], tmp_path), function, [given])


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_at_their_limits_are_what_they_are_for_the_reference(name, tmp_path):
    function, pairs = NUMBERS[name]
    kernel = kernel_of(function, [torch.arange(1, 40, dtype=torch.int32) for _ in range(2)], tmp_path)
    for a, b in pairs:
        assert_alike(kernel, function, [torch.full((39,), number, dtype=torch.int32) for number in (a, b)])
