"""Runs problem files at their checking shapes and prints, as JSON, what is wrong with each. A process of its own."""

import inspect
import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

TRIVIAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "zeros": torch.zeros_like,
    "ones": torch.ones_like,
    "the first row": lambda x: x[:1].expand_as(x) if x.dim() else torch.zeros_like(x),
    "a constant": lambda x: torch.full_like(x, x.double().mean().item() if x.dim() else 0),
}


def flat(output: Any) -> list[torch.Tensor]:
    return list(output) if isinstance(output, tuple | list) else [output]


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(left, right, strict=True))


def bound(dtype: torch.dtype) -> dict[str, float]:
    """How far an answer may lie from that in float64."""
    return {"rtol": 1e-2, "atol": 1e-2} if dtype in (torch.float16, torch.bfloat16) else {"rtol": 1e-3, "atol": 1e-4}


class Case:
    """One problem at one shape: how to make inputs from a seed, and the reference."""

    def __init__(self, name: str, make: Callable[[int], list[Any]], reference: Callable[..., Any]) -> None:
        self.name, self.make, self.reference = name, make, reference

    def run(self, inputs: list[Any]) -> list[torch.Tensor]:
        return flat(self.reference(*inputs))


def cases(path: Path) -> Iterator[Case]:
    """Yield the small shapes of a function file, the only one of a KernelBench file."""
    file = runpy.run_path(str(path))
    if "Model" not in file:
        for shape, sizes in list(file["shapes"].items())[1:]:

            def draw(seed: int, sizes: dict[str, int] = sizes) -> list[Any]:
                return list(file["inputs"](torch.Generator().manual_seed(seed), **sizes))

            yield Case(shape, draw, file["reference"])
        return
    torch.manual_seed(0)
    model = file["Model"](*file["get_init_inputs"]())

    def get(seed: int) -> list[Any]:
        torch.manual_seed(seed)
        return list(file["get_inputs"]())

    def forward(x: torch.Tensor) -> Any:
        with torch.no_grad():
            return model.to(x.dtype)(x)

    yield Case("main", get, forward)


def numbers(case: Case) -> Iterator[str]:
    """Complain about answers that a harness could not check against."""
    inputs, again = case.make(1), case.make(1)
    if not same(inputs, again):
        yield "inputs are not deterministic"
    output = case.run(inputs)
    if not same(inputs, again):
        yield "the reference writes to its inputs"
        return
    if not same(output, case.run(again)):
        yield "the reference is not deterministic"
    if not all(part.isfinite().all() for part in output):
        yield "the answer is not finite"
    doubled = case.run([x.double() if x.is_floating_point() else x for x in inputs])
    for single, double in zip(output, doubled, strict=True):
        if single.is_floating_point() and double.dtype is not torch.float64:
            yield "float64 inputs do not give a float64 answer"
        elif not torch.allclose(single.double(), double.double(), **bound(single.dtype), equal_nan=True):
            yield "the answer in float64 is another one"


def degenerate(case: Case) -> Iterator[str]:
    """Complain if an answer that needs no work passes."""
    for seed in (1, 2, 3):
        output = case.run(case.make(seed))
        for name, answer in TRIVIAL.items():
            if all(torch.allclose(answer(part).double(), part.double(), rtol=1e-3, atol=1e-4) for part in output):
                yield f"{name} would be right (seed {seed})"


def unused(case: Case, names: list[str]) -> Iterator[str]:
    """Complain about an input without influence: a change in it leaves the answer as it is."""
    inputs = case.make(1)
    output = case.run(inputs)
    for index, name in enumerate(names):
        changed = list(inputs)
        x = inputs[index]
        # The order along the last dimension turned round keeps lengths, labels and tables valid, if not sorted.
        changed[index] = x + x.abs().flip(-1) if x.is_floating_point() else x.flip(-1)
        if same(changed, inputs) or x.numel() < 2:
            continue
        if same(output, case.run(changed)):
            yield f"the answer does not depend on {name}"


def check(path: Path) -> list[str]:
    complaints = []
    for case in cases(path):
        names = list(inspect.signature(case.reference).parameters)
        for complaint in (*numbers(case), *degenerate(case), *unused(case, names)):
            complaints.append(f"{case.name}: {complaint}")
    return complaints


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({Path(path).stem: check(Path(path)) for path in sys.argv[1:]}))
