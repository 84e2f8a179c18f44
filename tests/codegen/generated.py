"""Generated candidates against eager PyTorch, in a process of its own. Run as a script:

python generated.py RESULTS.json [NAME …]
"""

import json
import sys
import traceback
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import operators_at_limits  # noqa: F401 - registers its own
import operators_over_time  # noqa: F401 - registers its own
import torch
from operators import CASES

from kernelswarm.codegen.cpp.candidate import generate
from kernelswarm.codegen.ir.tunables import settings
from kernelswarm.hardware.capture.capture import capture
from kernelswarm.hardware.machine.work import count_work
from kernelswarm.schemas import InputFact, ProblemFacts


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [item for part in value for item in flat(part)]


def differences(got, want, bound):
    """What differs, in words; empty if nothing does."""
    texts = [] if len(got) == len(want) else [f"{len(got)} outputs instead of {len(want)}"]
    for place, (g, w) in enumerate(zip(got, want, strict=False)):
        if g.shape != w.shape or g.dtype != w.dtype:
            texts.append(f"output {place}: {tuple(g.shape)} {g.dtype} instead of {tuple(w.shape)} {w.dtype}")
        elif not g.dtype.is_floating_point:
            if not torch.equal(g, w):
                texts.append(f"output {place}: {int((g != w).sum())} of {g.numel()} elements differ")
        else:
            close = bound or {torch.float64: 1e-10, torch.bfloat16: 2e-2, torch.float16: 2e-3}.get(w.dtype, 2e-5)
            if not torch.allclose(g.double(), w.double(), rtol=close, atol=close, equal_nan=True):
                error = (g.double() - w.double()).abs().nan_to_num(9e9).max()
                texts.append(f"output {place}: off by {float(error):.3g}")
    return texts


def build(function, inputs, config, stem):
    """Capture at ``inputs`` and generate; the candidate's callable, not yet compiled, as a thunk."""
    torch.manual_seed(1)
    target = function().eval() if isinstance(function, type) else function
    with torch.no_grad():
        graph = capture(target, inputs)
    state = target.state_dict() if isinstance(function, type) else {}
    parameters = {
        name: InputFact(name=name, kind="tensor", shape=tuple(v.shape), dtype=str(v.dtype).removeprefix("torch."))
        for name, v in state.items()
    }
    facts = ProblemFacts(
        signature=(),
        shapes=(),
        graph=graph,
        work=count_work(graph),
        dtype="float32",
        float64_oracle=True,
        parameters=parameters,
    )
    source = generate(facts, graph, settings(config)).source

    def load():
        module = types.ModuleType(stem)
        exec(compile(source, stem, "exec"), module.__dict__)
        if not state:
            return module.kernel
        model = module.ModelNew()
        model.load_state_dict(state)
        return model

    return target, load, source


def check(name):
    """The differences found for one operator, by inputs."""
    function, makers, config, bound = CASES[name]
    torch.manual_seed(0)
    input_sets = [maker() for maker in makers]
    target, load, source = build(function, input_sets[0], config, name)
    return lambda: _compare(target, load(), input_sets, bound), source


def _compare(target, kernel, input_sets, bound):
    texts = []
    with torch.no_grad():
        for number, inputs in enumerate(input_sets):
            copies = [v.clone() if isinstance(v, torch.Tensor) else v for v in inputs]
            want = flat(target(*inputs))
            got = flat(kernel(*inputs))
            texts += [f"inputs {number}: {text}" for text in differences(got, want, bound)]
            for before, after in zip(copies, inputs, strict=True):
                if isinstance(before, torch.Tensor) and not torch.equal(before.nan_to_num(), after.nan_to_num()):
                    texts.append(f"inputs {number}: an input was changed")
    return texts


def attempt(step):
    try:
        return step()
    except Exception:  # noqa: BLE001 - whatever goes wrong is what the test is to see
        return [traceback.format_exc()[-3000:]]


def main(results, names):
    generated = {}
    for name in names:
        try:
            generated[name] = check(name)
        except Exception:  # noqa: BLE001 - whatever goes wrong is what the test is to see
            error = traceback.format_exc()[-3000:]
            generated[name] = (lambda error=error: [error]), ""
    with ThreadPoolExecutor(2) as pool:
        texts = list(pool.map(lambda name: attempt(generated[name][0]), names))
    report = {
        name: {"differences": text, "kernels": generated[name][1].count('extern "C"'), "source": generated[name][1]}
        for name, text in zip(names, texts, strict=True)
    }
    Path(results).write_text(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(CASES))
