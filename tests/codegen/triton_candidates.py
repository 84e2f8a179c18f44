"""Triton candidates by Triton's interpreter against eager PyTorch, on the CPU. Run as a script, in its own process,
with TRITON_INTERPRET=1 and this folder and tests/support on the path:

    python triton_candidates.py REPORT.json [OPERATOR…]

It writes the report and every candidate beside it.
"""

import importlib.util
import json
import sys
import traceback
from pathlib import Path

import interpreted  # noqa: F401
import operators
import operators_at_limits  # noqa: F401 - registers its own
import operators_over_time  # noqa: F401 - registers its own
import together  # noqa: F401
import torch
import triton_chains_cases
import triton_convolution_cases
import triton_products_cases
import triton_recurrent_cases
from recorded import PLACES, Launches, placed

from kernelswarm.codegen.triton.candidate import generate_triton
from kernelswarm.codegen.triton.tunables import gpu_settings
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.schemas import InputFact, ProblemFacts, ShapeFacts, Work

DATA_DEPENDENT = {"compactions", "truncate_by_search", "truncate_by_repeat"}
"""What follows kernels that were not run would fail."""
ELSEWHERE = {
    "rmsnorm", "softmax_online", "reductions", "running_sums", "concatenations", "gathers", "matmul", "split_linear",
    "made_operands", "batched", "attention", "attention_spelled", "conv2d", "conv1d", "max_pool",
    "depthwise_line", "transposed_in_groups", "views_multiplied", "heads", "numbers", *DATA_DEPENDENT,
}  # fmt: skip
"""Of every kind one: these are run on inputs in other places, too."""


def copied(inputs):
    """The same inputs in memory of their own."""
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]


def shape_of(graph, inputs):
    """One of a problem's shapes."""
    names = [node.name for node in graph.nodes if node.op == "input"]
    facts = [
        InputFact(name=name, kind="tensor", shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch."))
        for name, value in zip(names, inputs, strict=True)
        if isinstance(value, torch.Tensor)
    ]
    return ShapeFacts(name="", inputs=tuple(facts), outputs=())


def write(function, inputs, config, path, error_bound=None):
    """The candidate for an operator captured at the first inputs, with the shapes of all."""
    graph = capture(function, copied(inputs[0]))
    work = Work(read_bytes=1, write_bytes=1, flops=1)
    shapes = tuple(shape_of(graph, arguments) for arguments in inputs)
    facts = ProblemFacts(
        signature=(),
        shapes=shapes,
        graph=graph,
        work=work,
        dtype="float32",
        float64_oracle=True,
        error_bound=error_bound,
        is_module=isinstance(function, torch.nn.Module),
    )
    path.write_text(generate_triton(facts, graph, gpu_settings(config)).source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loaded(module, function):
    """What a candidate file offers, with the reference's weights."""
    if not isinstance(function, torch.nn.Module):
        return module.kernel
    model = module.ModelNew()
    model.load_state_dict(function.state_dict())
    return model


def move(kernel, place):
    """Put a candidate's weights elsewhere, too."""
    for weight in kernel.parameters() if isinstance(kernel, torch.nn.Module) else ():
        weight.data = PLACES[place](weight.data)


def flat(values):
    if isinstance(values, torch.Tensor):
        return [values]
    return [tensor for value in values for tensor in flat(value)]


def differs(want, got, bound):
    """Why two results are not the same; empty if they are."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{want.dtype}{list(want.shape)} expected, got {got.dtype}{list(got.shape)}"
    if not want.dtype.is_floating_point:
        return "" if torch.equal(want, got) else "other numbers"
    finite = want[torch.isfinite(want)].abs()
    scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
    same = torch.allclose(want.double(), got.double(), rtol=bound, atol=bound * scale, equal_nan=True)
    return "" if same else f"off by {(want.double() - got.double()).abs().max().item():.2e}"


def size_of(inputs):
    """Elements, 0 if a tensor has none."""
    counts = [value.numel() for value in inputs if isinstance(value, torch.Tensor)]
    return sum(counts) if all(counts) else 0


def cases_of(name, given):
    """What is passed, what it is called, and whether kernels are run or only recorded."""
    for number, inputs in enumerate(given):
        yield f"input {number}", inputs, name not in triton_recurrent_cases.LARGE
    for place in PLACES:
        # Where lengths are given, they are to stay the same.
        if name not in DATA_DEPENDENT or place != "expanded":
            yield place, placed(given[0], place), name in DATA_DEPENDENT
    if name in ELSEWHERE:
        small = min(filter(size_of, given), key=size_of)
        yield "mixed", placed(small, "padded", "strided", "misaligned"), True
        places = ("misaligned", "padded" if name in DATA_DEPENDENT else "expanded", "strided")
        yield "mixed again", placed(small, *places), True


def compare(name, function, makers, config, bound, folder):
    """What one operator's report says.

    Differences, kernels, inputs for which the candidate fell back to ATen or copied something to where its kernels can
    read it, and launches that are not in its list.
    """
    torch.manual_seed(0)
    given = [make() for make in makers]
    function = function() if isinstance(function, type) else function
    error_bound = triton_recurrent_cases.ERROR_BOUND if name in triton_recurrent_cases.CASES else None
    module = write(function, given, config, folder / f"{name}.py", error_bound)
    plain, fit = module._aten, module._fit
    fallbacks, copies, differences, unlisted = [], [], [], []

    def aten(*inputs):
        fallbacks.append(case)
        return plain(*inputs)

    def copy(*arguments):
        fitted = fit(*arguments)
        if fitted is not arguments[0]:
            copies.append(case)
        return fitted

    module._aten, module._fit = aten, copy
    launches, kernel = Launches(module), loaded(module, function)
    for case, inputs, run in cases_of(name, given):
        want = flat(function(*copied(inputs))) if run else []
        if case in PLACES:
            move(kernel, case)
        with launches.recorded(run=run):
            got = flat(kernel(*inputs))
        unlisted += [f"{case}: {name}" for name in launches.unlisted()]
        for place, (w, g) in enumerate(zip(want, got, strict=True) if run else ()):
            reason = differs(w, g, bound)
            differences += [f"{case}, output {place}: {reason}"] if reason else []
    kernels = len({launch["kernel"] for launch in module.TRITON_LAUNCHES})
    return {
        "differences": differences,
        "kernels": kernels,
        "fallbacks": fallbacks,
        "copies": copies,
        "unlisted": unlisted,
    }


def main(path, *chosen):
    cases = {n: (f, i, {"math": "accurate"}, b or 2e-5) for n, (f, i, _, b) in operators.CASES.items() if n != "module"}
    cases |= triton_products_cases.CASES | triton_chains_cases.CASES | triton_convolution_cases.CASES
    cases |= triton_recurrent_cases.CASES
    names = [name for name in cases if name in chosen] or list(cases)
    report = {}
    for name in names:
        function, makers, config, bound = cases[name]
        try:
            report[name] = compare(name, function, makers, config, bound, path.parent)
        except Exception:  # noqa: BLE001 - the report says what happened, the other operators go on
            failed = [traceback.format_exc()[-1500:]]
            report[name] = {"differences": failed, "kernels": 0, "fallbacks": [], "copies": [], "unlisted": []}
    path.write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
