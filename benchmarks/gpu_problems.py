"""Writes the problems of the GPU figures as problem files: four operators, each in bfloat16 and float32.

    python benchmarks/gpu_problems.py kernelswarm-out/gpu-problems
    python benchmarks/kernels.py --pool h200 --problems $(ls -m kernelswarm-out/gpu-problems/*.py | tr -d ' \\n') \\
        --results benchmarks/results/kernels_h200.json

Shapes as other systems publish theirs; small ones beside them, so that a kernel for one size alone is none.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

DTYPES = ("bfloat16", "float32")

TEMPLATE = '''"""{title}, {dtype}."""

import torch
import torch.nn.functional as F

shapes = {{
    "main": {{{main}}},
    "ragged": {{{ragged}}},
    "one_row": {{{one_row}}},
}}


def inputs(generator: torch.Generator, rows: int, cols: int) -> list[torch.Tensor]:
    x = torch.randn(rows, cols, generator=generator).to(torch.{dtype})
    return [{inputs}]


def reference({arguments}) -> torch.Tensor:
    return {result}
'''

WEIGHT = "(1 + 0.2 * torch.randn(cols, generator=generator)).to(torch.{dtype})"
BIAS = "(0.2 * torch.randn(cols, generator=generator)).to(torch.{dtype})"
LABELS = "torch.randint(0, cols, (rows,), generator=generator)"


@dataclass(frozen=True)
class Figure:
    """One operator of the figures."""

    title: str
    rows: int
    cols: int
    inputs: tuple[str, ...]
    """Beside ``x``."""
    arguments: tuple[str, ...]
    result: str

    def source(self, dtype: str) -> str:
        """The problem file."""
        sizes = ((self.rows, self.cols), (37, 1000), (1, self.cols))
        main, ragged, one_row = (f'"rows": {rows}, "cols": {cols}' for rows, cols in sizes)
        return TEMPLATE.format(
            title=f"{self.title}, {self.rows} x {self.cols}",
            dtype=dtype,
            main=main,
            ragged=ragged,
            one_row=one_row,
            inputs=", ".join(("x", *(part.format(dtype=dtype) for part in self.inputs))),
            arguments=", ".join(f"{name}: torch.Tensor" for name in ("x", *self.arguments)),
            result=self.result,
        )


FIGURES = {
    "rmsnorm": Figure("RMSNorm", 8192, 8192, (WEIGHT,), ("weight",), "F.rms_norm(x, (x.shape[-1],), weight, 1e-6)"),
    "softmax": Figure("Softmax", 8192, 8192, (), (), "torch.softmax(x, -1)"),
    "layernorm": Figure(
        "LayerNorm", 8192, 4096, (WEIGHT, BIAS), ("weight", "bias"), "F.layer_norm(x, (x.shape[-1],), weight, bias)"
    ),
    "cross_entropy": Figure(
        "Cross entropy", 8192, 32768, (LABELS,), ("labels",), "F.cross_entropy(x, labels, reduction='mean')"
    ),
}


def write(folder: Path) -> list[Path]:
    """Every figure in every dtype; the files' paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in FIGURES.items():
        for dtype in DTYPES:
            path = folder / f"{name}_{dtype}.py"
            path.write_text(figure.source(dtype), encoding="utf-8")
            paths.append(path)
    return paths


def main() -> None:
    """Write them and print where they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    print(*write(parser.parse_args().folder), sep="\n")


if __name__ == "__main__":
    main()
