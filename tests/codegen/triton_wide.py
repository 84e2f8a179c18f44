"""Kernels at more than 2^31 elements by Triton's interpreter: the first program of each, which needs little memory. Run
as a script, in its own process, with this folder and tests/support on the path:

    python triton_wide.py REPORT.json

It writes how many elements each kernel wrote, and whether these are right.
"""

import json
import sys
from pathlib import Path

import interpreted  # noqa: F401
import torch
from compared import loaded
from graphs import call, facts, graph, last, source

from kernelswarm.codegen.triton.candidate import generate_triton
from kernelswarm.codegen.triton.tunables import gpu_settings

SIZE = 1 << 16
"""Its square is 0 in 32 bits."""


def flat():
    return graph(source("x", "s0", "s1"), call("exp", "exp.default", ("x",), "s0", "s1"), outputs=["exp"])


def tiles():
    shape = ("s0", "s1", 8)
    return graph(source("x", *shape), source("y", 8), call("mul", "mul.Tensor", ("x", "y"), *shape), outputs=["mul"])


def rows():
    return graph(
        source("x", "s0", "s1", 8),
        call("sum", "sum.dim_IntList", ("x", last(), True), "s0", "s1", 1),
        call("div", "div.Tensor", ("x", "sum"), "s0", "s1", 8),
        outputs=["div"],
    )


CASES = {
    "flat": (flat, {"pointwise": "flat"}, lambda x, y: x.exp()),
    "tiles": (tiles, {"pointwise": "tile"}, lambda x, y: x * y),
    "rows": (rows, {"row": "whole"}, lambda x, y: x / x.sum(-1, keepdim=True)),
    "rows_in_blocks": (rows, {"row": "loop"}, lambda x, y: x / x.sum(-1, keepdim=True)),
}


def main(path):
    report = {}
    for name, (make, config, function) in CASES.items():
        source_graph = make()
        text = generate_triton(facts(source_graph), source_graph, gpu_settings(config)).source
        file = loaded(text, path.parent / f"{name}.py")
        (launch,) = file.TRITON_LAUNCHES
        x, y, out = torch.rand(SIZE, 8), torch.rand(8), torch.full((SIZE, 8), -1.0)
        tensors = {"x_ptr": x, "y_ptr": y}
        arguments = {n: tensors.get(n, out) if str(v).startswith("*") else v for n, v in launch["arguments"].items()}
        sizes = {n: SIZE for n in ("s0", "s1") if n in arguments}
        getattr(file, launch["kernel"])[(1,)](**arguments | sizes | {"EVEN": False, "WIDE": True})
        is_written = out != -1
        report[name] = int(is_written.sum()), torch.allclose(out[is_written], function(x, y)[is_written])
    path.write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
