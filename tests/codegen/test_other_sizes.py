"""What the reference decides by its sizes is captured one way: at others a candidate says so instead of being wrong."""

import importlib.util
import math
import operator
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.hardware.capture.capture import capture, capture_elsewhere
from kernelswarm.hardware.capture.nested import structure, structure_of
from kernelswarm.schemas import Graph, InputFact, ProblemFacts, ShapeFacts, Work

ROWS, COLS = 6, 40


def branch(x):
    return F.gelu(x) * 2 if x.shape[1] > 30 else F.gelu(x) + 1


def not_seven(x):
    return F.gelu(x) * (2 if x.shape[0] != 7 else 3)


def shorter_side(x):
    return F.gelu(x[:, : min(x.shape)]) * 2


def square(x):
    return F.gelu(x.tril() if x.shape[0] == x.shape[1] else x)


DECIDES: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "branch": (branch, ("x.shape[1] > 30",)),
    "another branch": (not_seven, ("x.shape[0] != 7",)),
    "sizes compared": (shorter_side, ("x.shape[1] >= x.shape[0]",)),
    "sizes that are unlike": (square, ("x.shape[0] != x.shape[1]",)),
    "loop": (lambda x: F.gelu(sum(x * i for i in range(x.shape[0]))), ("x.shape[0] == 6",)),
    "unbind": (lambda x: F.gelu(sum(x.unbind(0))), ("x.shape[0] == 6",)),
    "number": (lambda x: torch.softmax(x / operator.index(x.shape[1]), -1), ("x.shape[1] == 40",)),
    "computed size of 1": (lambda x: F.gelu(x[:, :-39] * 2).reshape(-1), ("((-39) + x.shape[1]) == 1",)),
}
DOES_NOT = {
    "power": lambda x: torch.softmax(x / x.shape[1] ** 0.5, -1),
    "root": lambda x: torch.softmax(x / math.sqrt(x.shape[1]), -1),
    "imported root": lambda x: torch.softmax(x / sqrt(x.size(-1)), -1),
    "root of NumPy": lambda x: torch.softmax(x * np.sqrt(x.shape[1]), -1),
    "logarithm of a quotient": lambda x: torch.softmax(x * math.log2(x.shape[1] / 3), -1),
    "power of math": lambda x: torch.softmax(x * math.pow(x.shape[1], -0.5), -1),
    "float": lambda x: torch.softmax(x * float(x.shape[1]) ** -0.5, -1),
    "int": lambda x: F.pad(x, (int(x.shape[1] * 0.3), 0)) * 2 if isinstance(x.numel() * 0 + 1.5, float | int) else x,
    "type as dtype": lambda x: (x * 2).to(float) + torch.zeros(x.shape, dtype=float),
    "tensor": lambda x: torch.softmax(x / torch.tensor(x.shape[1]), -1),
    "tensor of floats": lambda x: torch.softmax(x / torch.sqrt(torch.tensor(x.shape[1], dtype=x.dtype)), -1),
    "ramp": lambda x: x * torch.linspace(-1, 2, x.shape[1]),
    "spectrum": lambda x: torch.fft.rfft(x).abs() * 2,
    "rounded up": lambda x: torch.softmax(F.pad(x, (0, math.ceil(x.shape[1] / 3))), -1),
    "circular": lambda x: F.pad(x, (2, 1), mode="circular") * 2,
    "resampled": lambda x: F.interpolate(x[None, None], scale_factor=1.5, mode="bilinear")[0, 0] * 2,
    "halves": lambda x: F.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 : x.shape[1] // 2 * 2],
    "missing to a multiple": lambda x: F.pad(x, (0, -x.shape[1] % 16)) * 2,
    "divided and rounded up": lambda x: x[:, : -(-x.shape[1] // 8)] * -(-x.shape[0] // 4),
    "divided by a negative number": lambda x: x[:, : -(x.shape[1] // -3)] + x.shape[0] % -4,
    "descending": lambda x: torch.arange(x.shape[1] - 1, -1, -2) * x[:, : -(-x.shape[1] // 2)],
    "from the end": lambda x: x[:, -(x.shape[1] // 2) :] * 2 + x[1 - x.shape[0] :, -(x.shape[1] // 2) :].sum(),
    "numbers from the end": lambda x: x[:, torch.arange(-(x.shape[1] // 2), 0)] * 2,
    "diagonal": lambda x: x.diagonal(-3) * 2,
    "rolled back by a third": lambda x: torch.roll(x, -x.shape[1] // 3, 1) * 2,
    "norm": lambda x: F.layer_norm(x, (x.shape[-1],)) * 2,
    "pool": lambda x: F.avg_pool1d(x[None], 4)[0] * 2,
    "pool of lines": lambda x: F.max_pool1d(x[None].exp(), 4, 2)[0],
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def captured(function: Callable[[Any], Any]) -> Graph:
    return capture(function, [torch.randn(ROWS, COLS)], ["x"])


def loaded(graph: Graph, language: str, folder: Path, elsewhere: tuple[Graph, ...] = ()) -> ModuleType:
    given = InputFact(name="x", kind="tensor", shape=(ROWS, COLS), dtype="float32")
    facts = ProblemFacts(
        signature=("x",),
        shapes=(ShapeFacts(name="main", inputs=(given,), outputs=()),),
        graph=graph,
        graphs_elsewhere=elsewhere,
        work=Work(read_bytes=1, write_bytes=1, flops=1),
        dtype="float32",
        float64_oracle=True,
    )
    path = folder / f"{language}_candidate.py"
    path.write_text(CODEGEN_BACKENDS[language].source(facts, graph, {}, HARDWARE))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", DECIDES)
def test_what_a_reference_decides_by_its_sizes_is_known(name: str) -> None:
    function, conditions = DECIDES[name]
    assert captured(function).decided == conditions


@pytest.mark.parametrize("name", DOES_NOT)
def test_what_holds_for_every_size_asks_nothing(name: str) -> None:
    assert captured(DOES_NOT[name]).decided == ()


@pytest.mark.parametrize("name", DOES_NOT)
def test_a_candidate_is_right_at_every_size(name: str, tmp_path: Path) -> None:
    module, tensor = loaded(captured(DOES_NOT[name]), "cpp", tmp_path), torch.randn(7, 29)

    torch.testing.assert_close(module.kernel(tensor), DOES_NOT[name](tensor))
    torch.testing.assert_close(module._aten(tensor), DOES_NOT[name](tensor))


def test_functions_of_numbers_are_as_before_once_captured() -> None:
    before = math.sqrt, torch.tensor, sqrt
    captured(DOES_NOT["imported root"])
    assert (math.sqrt, torch.tensor, sqrt) == before
    assert not hasattr(torch.SymInt, "sqrt")
    assert torch._C.DispatchKey.CompositeImplicitAutograd not in torch.ops.aten._pad_circular.default.py_kernels


@pytest.mark.parametrize("name", ["branch", "another branch", "number", "sizes compared", "sizes that are unlike"])
def test_a_candidate_refuses_sizes_that_it_was_not_captured_for(name: str, tmp_path: Path) -> None:
    function, _ = DECIDES[name]
    module = loaded(captured(function), "cpp", tmp_path)
    same, other = torch.randn(ROWS, COLS), torch.randn(7, 29)
    other = other.T if "compared" in name else other[:, :7] if "unlike" in name else other

    torch.testing.assert_close(module.kernel(same), function(same))
    for function in (module.kernel, module._aten):
        with pytest.raises(module.NotSupported, match="the reference branches on these sizes"):
            function(other)
    assert issubclass(module.NotSupported, NotImplementedError)


def test_sizes_that_others_cannot_be_divided_by_are_refused(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return F.gelu(x) * (x.shape[1] // (x.shape[0] - 5))

    def halves(x: Any, n: int) -> Any:
        return F.gelu(x) * (n // 2)

    module = loaded(captured(function), "cpp", tmp_path)
    torch.testing.assert_close(module.kernel(torch.ones(9, 29)), function(torch.ones(9, 29)))
    for rows in (5, 3):
        with pytest.raises(module.NotSupported, match="divides other numbers than positive ones"):
            module.kernel(torch.ones(rows, 29))
    of_a_number = loaded(capture(halves, [torch.ones(ROWS, COLS), 7], ["x", "n"]), "cpp", tmp_path)
    torch.testing.assert_close(of_a_number.kernel(torch.ones(9, 29), 5), halves(torch.ones(9, 29), 5))
    with pytest.raises(module.NotSupported.__mro__[1], match="divides other numbers than positive ones"):
        of_a_number.kernel(torch.ones(9, 29), -3)


def test_a_number_is_no_other_number(tmp_path: Path) -> None:
    graph = capture(lambda x, scale: F.gelu(x) * scale, [torch.randn(ROWS, COLS), 0.5], ["x", "scale"])
    module = loaded(graph, "cpp", tmp_path)
    x = torch.randn(3, 5)

    torch.testing.assert_close(module.kernel(x, 0.5), F.gelu(x) * 0.5)
    with pytest.raises(module.NotSupported, match=r"generated for scale = 0\.5 only"):
        module.kernel(x, 0.25)


def test_a_triton_candidate_refuses_them_too(tmp_path: Path) -> None:
    source = loaded(captured(branch), "triton", tmp_path)

    torch.testing.assert_close(source._aten(torch.ones(3, 31)), branch(torch.ones(3, 31)))
    with pytest.raises(source.NotSupported, match="the reference branches on these sizes"):
        source.kernel(torch.ones(3, 29))


ELSEWHERE: dict[str, Callable[[Any], Any]] = {
    **{name: function for name, (function, _) in DECIDES.items()},
    "pool whose window equals a size": lambda x: F.max_pool1d(x.exp()[:, :4], 4, 4),
    "copies of rows": lambda x: torch.stack(torch.unbind_copy(x)[::-1]).exp(),
    "another rank": lambda x: F.gelu(x if x.ndim == 2 else x.sum(0)),
    "a table of numbers": lambda x: F.gelu(x[:2, :3]) + torch.tensor([x.shape[0] * 1.0, 2.0, 3.0]).flip(0),
}

OFTEN = ("unbind", "another rank", "a table of numbers")


@pytest.mark.parametrize(
    ("name", "language"),
    [
        pytest.param(name, language, marks=() if language == "cpp" and name in OFTEN else pytest.mark.thorough)
        for name in ELSEWHERE
        for language in ("cpp", "triton")
    ],
)
def test_a_named_shape_that_takes_another_way_is_right(name: str, language: str, tmp_path: Path) -> None:
    function, others = ELSEWHERE[name], [torch.randn(7, 29), torch.randn(6, 40), torch.randn(3, 31)]
    others += [torch.randn(2, 4, 20)] if name == "another rank" else []
    graph = captured(function)
    graphs = capture_elsewhere(function, graph, [[other] for other in others], ["x"])
    module = loaded(graph, language, tmp_path, graphs)

    for tensor in (torch.randn(ROWS, COLS), *others):
        torch.testing.assert_close(module._aten(tensor), function(tensor))
        if language == "cpp":
            torch.testing.assert_close(module.kernel(tensor), function(tensor))


def pairs(x):
    rows, cols = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return F.gelu(x[rows] * x[cols]).sum(0)


@pytest.mark.parametrize("language", ["cpp", "triton"])
def test_sizes_that_nobody_named_are_refused_where_named_ones_take_other_ways(language: str, tmp_path: Path) -> None:
    graph = captured(pairs)
    module = loaded(graph, language, tmp_path, capture_elsewhere(pairs, graph, [[torch.randn(4, COLS)]], ["x"]))
    torch.testing.assert_close(module._aten(named := torch.randn(4, COLS)), pairs(named))
    # Five rows have no sixth one: an index beyond them ends a process on an accelerator.
    with pytest.raises(module.NotSupported, match="another operator at these sizes"):
        module._aten(torch.randn(5, COLS))


def positions(x):
    return F.gelu(x / x.shape[0] + torch.arange(x.shape[0])[:, None]).reshape(-1, 8)


@pytest.mark.parametrize("language", ["cpp", "triton"])
def test_a_size_of_1_is_a_number_unless_another_one_is_named(language: str, tmp_path: Path) -> None:
    graph = capture(positions, [torch.randn(1, COLS)], ["x"])
    (tmp_path / "alone").mkdir()
    alone = loaded(graph, language, tmp_path / "alone")
    graphs = capture_elsewhere(positions, graph, [[torch.randn(4, COLS)]], ["x"])
    named = loaded(graph, language, tmp_path, graphs)

    for rows in (1, 4, 5):
        tensor = torch.randn(rows, COLS)
        for module, right in ((alone, rows == 1), (named, True)):
            for function in (module._aten, *([module.kernel] if language == "cpp" else [])):
                if right:
                    torch.testing.assert_close(function(tensor), positions(tensor))
                    continue
                with pytest.raises(module.NotSupported, match=r"generated for x\.shape\[0\] = 1 only"):
                    function(tensor)


def interaction(x, tables):
    """As a recommendation model has it: how many tables there are is the model's own affair."""
    rows = torch.stack([x, *tables], 1)
    return F.gelu(rows @ rows.transpose(1, 2)).flatten(1)


@pytest.mark.parametrize("language", ["cpp", pytest.param("triton", marks=pytest.mark.thorough)])
def test_a_list_of_another_length_goes_another_way_or_is_refused(language: str, tmp_path: Path) -> None:
    three, two, four = ([torch.randn(5, 8), [torch.randn(5, 8) for _ in range(count)]] for count in (3, 2, 4))
    graph = capture(interaction, three, ["x", "tables"])
    assert structure_of(graph) == ["len(tables) == 3"]
    graphs = capture_elsewhere(interaction, graph, [three, two], ["x", "tables"])
    assert len(graphs) == 1
    module = loaded(graph, language, tmp_path, graphs)

    for inputs in (three, two):
        torch.testing.assert_close(module._aten(*inputs), interaction(*inputs))
        if language == "cpp":
            torch.testing.assert_close(module.kernel(*inputs), interaction(*inputs))
    for function in (module.kernel, module._aten):
        with pytest.raises(module.NotSupported, match=r"generated for len\(tables\) == 3 only"):
            function(*four)


def test_the_structure_of_an_input_is_that_of_its_containers_with_tensors() -> None:
    tensor = torch.ones(1)
    assert [*structure({"a": [tensor, tensor], "b": (1, 2), 3: {"c": tensor}}, "x")] == [
        "list(x) == ['a', 'b', 3]",
        "len(x['a']) == 2",
        "list(x[3]) == ['c']",
    ]
    assert [*structure([1, 2], "x")] == [*structure(tensor, "x")] == []


def test_sizes_by_which_the_reference_would_divide_by_zero_are_refused(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return F.gelu(x) * (x.shape[0] / (x.shape[0] - 1))

    module, tensor = loaded(captured(function), "cpp", tmp_path), torch.randn(3, 31)

    torch.testing.assert_close(module.kernel(tensor), function(tensor))
    for refusing in (module.kernel, module._aten):
        with pytest.raises(module.NotSupported, match="divides other numbers than positive ones"):
            refusing(tensor[:1])
