"""Pools and gathered rows in C++: what fuses, what is vectorised, and the same numbers."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parent))
from compared import facts_of, loaded
from graphs import HARDWARE

from kernelswarm.codegen.backends import CODEGEN_BACKENDS
from kernelswarm.codegen.cpp.candidate import generate, plan_of
from kernelswarm.codegen.ir.loops import Kernel
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.hardware.languages.cpp import BASE_FLAGS

Function = Callable[..., torch.Tensor]

BATCH = torch.randn(4)


def activated(x: torch.Tensor) -> torch.Tensor:
    """As convolution, batch norm and activation leave it, but for the convolution."""
    return F.relu(x * BATCH[:, None, None] + 1)


POOLS: dict[str, Function] = {
    "apart": lambda x: F.max_pool2d(activated(x), 2) + 1,
    "mean apart": lambda x: F.avg_pool2d(activated(x), 2) * 3,
    "overlapping": lambda x: F.max_pool2d(activated(x), 3, 2, 1) + 1,
    "overlapping on an input": lambda x: F.max_pool2d(x, 3, 2, 1) + 1,
    "large": lambda x: F.avg_pool2d(activated(x), 5) * 2,
    "large with padding": lambda x: F.max_pool2d(x, 5, 5, 2) * 2,
    "padded in steps of one": lambda x: F.max_pool2d(x, 3, 1, 1) * 2,
    "of a line": lambda x: F.max_pool1d(x[0], 3) * 2,
    "of a pool": lambda x: F.max_pool2d(F.max_pool2d(activated(x), 2), 2) + 1,
    "rounded up": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True) + 1,
    "rounded up and padded": lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True) + 1,
    "unusual": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True) * 2,
}


def left(function: Function, windows: str) -> list[str]:
    """What is left to PyTorch."""
    graph = capture(function, [torch.randn(2, 4, 12, 14)], ["x"])
    externs = plan_of(graph, Settings(windows=windows)).externs
    return [node.target.split(".")[1] for node in externs if node.target != "operator.getitem"]


def stored(function: Function, *shape: int) -> list[list[str]]:
    """What each kernel stores."""
    graph = capture(function, [torch.randn(shape)], ["x"])
    return [sorted(kernel.stores) for kernel in plan_of(graph, Settings()).kernels if isinstance(kernel, Kernel)]


def test_pools_fuse_by_default_but_for_large_ones() -> None:
    assert {name for name in POOLS if left(POOLS[name], "slices")} == {"large", "large with padding", "unusual"}
    assert "max_pool2d_with_indices" in left(POOLS["apart"], "library")


def test_what_windows_read_where_they_overlap_is_computed_once() -> None:
    assert [len(stored(POOLS[name], 2, 4, 12, 14)) for name in ("apart", "overlapping on an input")] == [1, 1]
    assert stored(POOLS["overlapping"], 2, 4, 12, 14)[0] == ["getitem_padded"]

    def stencil(x: torch.Tensor) -> torch.Tensor:
        flux = x * x + 1
        return flux[:, 1:-1, 1:-1] - (flux[:, 2:, 1:-1] + flux[:, :-2, 1:-1] + flux[:, 1:-1, 2:] + flux[:, 1:-1, :-2])

    assert stored(stencil, 3, 30, 40)[0] == ["add"], "five places"
    assert len(stored(lambda x: (x * x)[:, 1:] - (x * x)[:, :-1], 30, 40)) == 1, "two places"


def test_a_window_in_padding_is_written_in_loops_as_many_as_it_has_edges() -> None:
    """Normalization over neighbouring channels: every element of the window chooses between input and padding."""

    def loops(size: int) -> int:
        def neighbours(x: torch.Tensor) -> Any:
            wide = F.pad(x, (0, 0, size // 2, size // 2))
            return sum(wide[:, place : place + x.shape[1]] for place in range(size))

        graph = capture(neighbours, [torch.randn(2, 20, 30)], ["x"])
        return len(simd_lines(generate(facts_of(graph, None), graph, Settings()).library.source))

    assert loops(5) <= 36 and loops(9) <= 100, "not three to the number of elements"


@pytest.mark.parametrize("windows", ["slices", "library"])
def test_they_are_right_at_every_size_and_on_nan(windows: str, tmp_path: Path) -> None:
    names = list(POOLS)

    def together(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(POOLS[name](x) for name in names)

    graph = capture(together, [torch.randn(2, 4, 12, 14)], ["x"])
    source = CODEGEN_BACKENDS["cpp"].source(facts_of(graph, together), graph, {"windows": windows}, HARDWARE)
    module = loaded(source, tmp_path / "candidate.py")
    for shape in ((2, 4, 12, 14), (3, 4, 11, 25), (1, 4, 40, 17)):
        x = torch.randn(shape)
        x[0, 1, 5, 6], x[0, 2, 3, 3], x[-1, 3, 8, 9] = float("nan"), float("inf"), -float("inf")
        for name, expected, got in zip(names, together(x), module.kernel(x), strict=True):
            torch.testing.assert_close(got, expected, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")


def simd_lines(source: str) -> list[int]:
    """Lines of the loops that are to be vectorised, from 1."""
    lines = source.splitlines()
    return [place + 2 for place, line in enumerate(lines) if line.strip().startswith("#pragma omp simd")]


def not_vectorised(graph: Any, tmp_path: Path) -> list[str]:
    """Loops of the draft that GCC vectorises none of."""
    library = generate(facts_of(graph, None), graph, Settings()).library
    path = tmp_path / "kernel.cpp"
    path.write_text(library.source)
    command = ["g++", *BASE_FLAGS, "-march=x86-64-v3", "-fopt-info-vec-optimized", "-o", "kernel.so", path.name]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    done = {int(number) for number in re.findall(r"kernel\.cpp:(\d+):\d+: optimized: loop vectorized", built.stderr)}
    lines = library.source.splitlines()
    return [lines[number - 1] for number in simd_lines(library.source) if not done & {number, number + 1}]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (POOLS["apart"], (2, 4, 12, 14)),
        (lambda x: torch.minimum(torch.maximum(x, x * 2), F.relu(x) + x.clamp(-1, 1)), (64, 100)),
        (lambda x: torch.fmax(torch.fmin(x, x * 2), torch.fmin(x + 1, 3 - x)), (64, 100)),
        (lambda x: (x * (x > 0)).sum(-1) / (x > 0).sum(-1), (64, 100)),
    ],
)
def test_several_extremes_and_truth_values_in_one_loop_are_vectorised(
    function: Function, shape: tuple[int, ...], tmp_path: Path
) -> None:
    version = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    if "Free Software Foundation" not in version:
        pytest.skip("the report is GCC's")
    assert not_vectorised(capture(function, [torch.randn(shape)], ["x"]), tmp_path) == []


def test_the_index_of_a_row_is_checked_once_for_all_its_columns(tmp_path: Path) -> None:
    def bag(index: torch.Tensor, table: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return F.relu((F.embedding(index, table) * scale[..., None]).sum(1))

    index, table, scale = torch.randint(0, 50, (9, 7)), torch.randn(50, 70), torch.randn(9, 7)
    graph = capture(bag, [index, table, scale], ["index", "table", "scale"])
    source = CODEGEN_BACKENDS["cpp"].source(facts_of(graph, bag), graph, {}, HARDWARE)
    module = loaded(source, tmp_path / "candidate.py")

    torch.testing.assert_close(module.kernel(index, table, scale), bag(index, table, scale))
    lines = source.splitlines()
    bodies = ["\n".join(lines[number - 1 : number + 4]) for number in simd_lines(source)]
    assert bodies and not any("ks_wrap" in body for body in bodies)
    index[3, 2] = 50
    with pytest.raises(IndexError):
        module.kernel(index, table, scale)


def causal(taps: int) -> Function:
    """As before the state of a Mamba block."""
    return lambda x, w, b: F.silu(F.conv1d(x, w, b, padding=taps - 1, groups=6)[..., : x.shape[2]])


def normed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(F.conv1d(x, weight, bias, padding=1, groups=6), [x.shape[2]])


CONVOLUTIONS_ALONG_TIME: dict[str, tuple[Function, int, int]] = {
    "causal": (causal(4), 4, 0),
    "gated": (lambda x, w, b: F.glu(F.conv1d(x, w, b, padding=3, groups=6), 1), 7, 0),
    "in steps": (lambda x, w, b: F.relu(F.conv1d(x, w, None, 2, 2, 2, 6)) + b[:, None], 3, 0),
    "of many taps": (causal(9), 9, 1),
    "measured": (normed, 3, 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS_ALONG_TIME)
def test_short_depthwise_convolutions_along_time_fuse(name: str, tmp_path: Path) -> None:
    function, taps, at_the_library = CONVOLUTIONS_ALONG_TIME[name]
    inputs = [torch.randn(2, 6, 19), torch.randn(6, 1, taps), torch.randn(6)]
    graph = capture(function, inputs, ["x", "weight", "bias"])
    externs = [node for node in plan_of(graph, Settings()).externs if node.target == "aten.convolution.default"]
    assert len(externs) == at_the_library
    assert any(
        node.target == "aten.convolution.default" for node in plan_of(graph, Settings(windows="library")).externs
    )
    kernel = loaded(
        CODEGEN_BACKENDS["cpp"].source(facts_of(graph, function), graph, {}, HARDWARE), tmp_path / "c.py"
    ).kernel
    for steps in (19, 1, 2, 333):
        x = torch.randn(2, 6, steps)
        if name != "measured" or steps > 2:  # distances of two numbers from their mean may be next to nothing
            torch.testing.assert_close(kernel(x, *inputs[1:]), function(x, *inputs[1:]), rtol=2e-5, atol=2e-5)
