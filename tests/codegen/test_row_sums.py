"""Sums along rows in C++ stay exact where a row is long and its numbers are alike."""

import re
import subprocess
from pathlib import Path

import pytest
import torch
from compared import Pair, facts_of

from kernelswarm.codegen.cpp.candidate import flags, generate
from kernelswarm.codegen.ir.tunables import Settings
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.hardware.languages.cpp import BASE_FLAGS


def strided(x: torch.Tensor) -> torch.Tensor:
    return x[:, :, ::2].sum((1, 2))


def last(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def everything(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


CASES = {
    "long rows": (last, (2, 1 << 18)),
    "a row with a rest": (last, (3, 70_003)),
    "short rows": (last, (5, 7)),
    "rows of short parts": (strided, (2, 3000, 90)),
    "everything": (everything, (1 << 20,)),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_that_are_alike_add_up(name: str, tmp_path: Path) -> None:
    function, shape = CASES[name]
    kernel = Pair(function, [torch.randn(shape)], "cpp", tmp_path / "candidate.py").kernel
    for x in (torch.full(shape, 1.2345678), torch.randn(shape).abs()):
        wanted = function(x.double())
        assert torch.allclose(kernel(x).double(), wanted, rtol=2e-6, atol=0)


def assembly(source: str, extra: list[str], folder: Path) -> str:
    """What GCC makes of a source for 512 bits."""
    version = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    if "Free Software Foundation" not in version:
        pytest.skip("other compilers have other instructions for the same")
    (folder / "kernel.cpp").write_text(source)
    command = [
        "g++",
        *BASE_FLAGS,
        "-march=x86-64-v4",
        "-mtune=icelake-server",
        *extra,
        "-S",
        "-o",
        "kernel.s",
        "kernel.cpp",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "kernel.s").read_text()


def row_sums() -> tuple[str, list[str]]:
    """The C++ source of sums along rows for 512 bits, and its flags."""
    settings, graph = Settings(vector_bits=512), capture(last, [torch.randn(64, 100)], ["x"])
    return generate(facts_of(graph, None), graph, settings).library.source, flags(settings)


def test_lanes_are_folded_without_branches(tmp_path: Path) -> None:
    source, extra = row_sums()
    fold = """
extern "C" float folded(const float* x) {
  float lanes[32];
  for (int l = 0; l < 32; ++l) lanes[l] = x[l];
  return ks_fold(lanes, [](float x, float y) -> float { return x + y; });
}
"""
    text = assembly(source[: source.index("// aten.sum")] + fold, extra, tmp_path)
    assert not re.search(r"^\s*j(?!mp)", text, re.M), text


def test_lanes_are_cleared_in_the_width_in_which_they_are_read(tmp_path: Path) -> None:
    text = assembly(*row_sums(), tmp_path)
    assert "%zmm" in text
    assert not re.search(r"vmovdqa\w*\s+%ymm\d+, ", text)
