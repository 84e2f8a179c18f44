"""What a finished file is made of, when its kernel computes, and when its reference does."""

import importlib.util
import json
import runpy
import subprocess
import sys
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import model_outputs
import pytest
import torch
from msgspec.structs import replace

from kernelswarm.hardware.dropin import finish
from kernelswarm.hardware.dropin.finishing import literal
from kernelswarm.hardware.dropin.functions import Packing
from kernelswarm.hardware.languages.assembly import language_of
from kernelswarm.hardware.sources.native_source import candidate_in
from kernelswarm.schemas import (
    InputFact,
    InputKind,
    Problem,
    ProblemFacts,
    ProblemFormat,
    ShapeFacts,
    Verdict,
    VerifyReport,
    Work,
)

REFERENCE = """
import torch
shapes = {"main": dict(rows=4), "other": dict(rows=6)}
def inputs(generator, rows):
    return [torch.randn(rows, 3, generator=generator), torch.randn(3, generator=generator), 0.5]
def reference(x, w, eps=0.5):
    return torch.tanh(x) * w + eps
"""
KERNEL = r"""# A kernel with '''quotes''' and \ backslashes.
import torch
calls = []
class NotSupported(NotImplementedError): pass
def kernel(x, w, eps):
    calls.append(tuple(x.shape))
    if x.shape[0] == 5:
        raise NotSupported("five rows")
    with torch.no_grad():
        return torch.tanh(x) * w + eps
"""
BACKWARD = """
def backward(x, w, eps, cotangent):
    calls.append("backward")
    t = torch.tanh(x)
    return cotangent * w * (1 - t * t), (cotangent * t).sum(0)
"""


def facts(**changes: object) -> ProblemFacts:
    def shape(name: str, rows: int) -> ShapeFacts:
        listed = (
            InputFact(name="x", kind="tensor", shape=(rows, 3), dtype="float32"),
            InputFact(name="w", kind="tensor", shape=(3,), dtype="float32"),
            InputFact(name="eps", kind="float", literal="0.5"),
        )
        return ShapeFacts(name=name, inputs=listed, outputs=(replace(listed[0], name="output_0"),))

    problem_facts = ProblemFacts(
        signature=("x", "w", "eps"),
        shapes=(shape("main", 4), shape("other", 6)),
        graph=None,
        work=Work(read_bytes=1, write_bytes=1, flops=1),
        dtype="float32",
        float64_oracle=True,
    )
    return replace(problem_facts, **changes)


PROBLEM = Problem(name="scaled", format=ProblemFormat.function, source=REFERENCE, sha256="0")


def imported(text: str, folder: Path, name: str) -> types.ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def best(tmp_path: Path, request: pytest.FixtureRequest) -> types.ModuleType:
    options = getattr(request, "param", {"source": KERNEL})
    return imported(finish(PROBLEM, facts(), **options), tmp_path, "best_scaled")


def arguments() -> list[object]:
    return [torch.randn(4, 3), torch.randn(3), 0.5]


def calls_of(best: types.ModuleType) -> list[object]:
    return best.CANDIDATE.module().calls


def test_it_says_how_it_is_used_and_what_it_needs(best: types.ModuleType) -> None:
    assert (
        best.__doc__ is not None and "`from best import kernel`; kernel(x, w, eps). It needs torch.\n" in best.__doc__
    )
    native = finish(PROBLEM, facts(signature=tuple(f"argument{n}" for n in range(40))), f"CPP_SOURCE = ''\n{KERNEL}")
    described = native.split('"""')[1]
    assert "It needs torch and a C++ compiler." in " ".join(described.split())
    assert max(map(len, described.splitlines())) <= 110
    module = finish(replace(PROBLEM, format=ProblemFormat.kernelbench), facts(is_module=True), KERNEL)
    assert "Use: `from best import ModelNew`" in module.split('"""')[1]


def test_it_holds_both_texts_as_they_are(best: types.ModuleType) -> None:
    text = Path(best.__file__).read_text()
    assert candidate_in(text) == KERNEL == best.KERNELSWARM_CANDIDATE
    assert best.KERNELSWARM_REFERENCE == REFERENCE
    assert "import kernelswarm" not in text and "from kernelswarm" not in text
    assert finish(PROBLEM, facts(), KERNEL) == text


@pytest.mark.parametrize("text", ["", "a", 'ends with "', "\\", '"""', "\\n\t\r\x0c\x00", "ä\u2028'''", "a\n\n"])
def test_any_text_survives_as_a_literal(text: str) -> None:
    written = literal(text)
    assert eval(written) == text
    assert "\r" not in written


def test_native_code_is_found_in_it() -> None:
    candidate = "CPP_SOURCE = r'''int one;'''\nCPP_FLAGS = []\ndef kernel(x, w, eps): return x\n"
    text = finish(PROBLEM, facts(), candidate)
    assert language_of(text, "none") == "cpp" and candidate_in(text) == candidate
    assert language_of(finish(PROBLEM, facts(), KERNEL), "none") == "none"


def test_the_kernel_computes_what_it_was_searched_for(best: types.ModuleType) -> None:
    x, w, eps = arguments()
    expected = torch.tanh(x) * w + eps
    assert torch.equal(best.kernel(x, w, eps), expected)
    assert torch.equal(best.kernel(x, w=w), expected)
    assert calls_of(best) == [(4, 3), (4, 3)]
    assert best.kernel.__name__ == "kernel" and best.kernel.__module__ == "best_scaled"


class Mine(torch.Tensor):
    """Any subclass."""


def fall_backs() -> dict[str, object]:
    x, w, _ = arguments()
    return {
        "type": lambda k: k(x.double(), w.double(), 0.5),
        "types mixed": lambda k: k(x.double(), w, 0.5),
        "number": lambda k: k(x, w, 0.25),
        "kind of number": lambda k: k(x, w, 1),
        "empty": lambda k: k(x[:0], w, 0.5),
        "gradients": lambda k: k(x.clone().requires_grad_(), w, 0.5),
        "subclass": lambda k: k(x.as_subclass(Mine), w, 0.5),
        "negated": lambda k: k(torch._neg_view(x), w, 0.5),
        "sparse": lambda k: k(x, torch.zeros(3).to_sparse().to_dense().to_mkldnn().to_dense(), 0.25),
        "autocast": lambda k: torch.autocast("cpu")(k)(x, w, 0.5),
        "vmap": lambda k: torch.vmap(k, in_dims=(0, None, None))(x, w, 0.5),
        "compile": lambda k: torch.compile(k, backend="eager", fullgraph=True)(x, w, 0.5),
        "trace": lambda k: torch.jit.trace(lambda a, b: k(a, b, 0.5), (x, w), check_trace=False)(x, w),
        "default device": lambda k: _with_default_device(k, x, w),
    }


def _with_default_device(kernel, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.device("cpu"):
        return kernel(x, w, 0.5)


@pytest.mark.parametrize("kind", fall_backs())
def test_the_reference_computes_everything_else(best: types.ModuleType, kind: str) -> None:
    call = fall_backs()[kind]
    torch.manual_seed(0)
    expected, got = call(best.REFERENCE.reference), call(best.kernel)
    assert type(got) is type(expected) and got.dtype == expected.dtype
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(expected))
    assert not best.CANDIDATE.is_made


def test_a_candidate_may_say_no(best: types.ModuleType) -> None:
    x, w = torch.randn(5, 3), torch.randn(3)
    assert torch.equal(best.kernel(x, w, 0.5), best.REFERENCE.reference(x, w, 0.5))
    assert calls_of(best) == [(5, 3)]


def test_arguments_that_the_reference_does_not_take_are_its_error(best: types.ModuleType) -> None:
    with pytest.raises(TypeError, match="reference"):
        best.kernel(torch.randn(4, 3))


def followed(call) -> list[torch.Tensor]:
    torch.manual_seed(3)
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    h = x * 2
    (h + call(h, w, 0.5)).square().sum().backward()
    call(x, w, 0.5).sum().backward()
    return [x.grad, w.grad]


def test_gradients_are_the_references(best: types.ModuleType) -> None:
    for expected, actual in zip(followed(best.REFERENCE.reference), followed(best.kernel), strict=True):
        assert torch.equal(expected, actual)
    assert not best.CANDIDATE.is_made


@pytest.mark.parametrize(
    "best",
    [{"source": KERNEL + BACKWARD, "verified": VerifyReport(verdict=Verdict.correct, isolation="", gradients="own")}],
    indirect=True,
)
def test_own_gradients_are_used(best: types.ModuleType) -> None:
    for expected, actual in zip(followed(best.REFERENCE.reference), followed(best.kernel), strict=True):
        assert torch.allclose(expected, actual, rtol=1e-5)
    assert calls_of(best) == [(4, 3), "backward", (4, 3), "backward"]


def second(call) -> list[torch.Tensor]:
    torch.manual_seed(3)
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    (slope,) = torch.autograd.grad(call(x, w, 0.5).square().sum(), x, create_graph=True)
    return list(torch.autograd.grad(slope.square().sum(), [x, w]))


@pytest.mark.parametrize(
    "best",
    [{"source": KERNEL + BACKWARD, "verified": VerifyReport(verdict=Verdict.correct, isolation="", gradients="own")}],
    indirect=True,
)
def test_gradients_of_gradients_come_from_the_reference(best: types.ModuleType) -> None:
    for expected, actual in zip(second(best.REFERENCE.reference), second(best.kernel), strict=True):
        assert torch.allclose(expected, actual, rtol=1e-4)


class Kept(OrderedDict):
    """A dictionary of which PyTorch was not told."""


@dataclass
class Scores:
    """A result with a field that is no tensor."""

    loss: object
    logits: object


@pytest.mark.parametrize(
    "make", [model_outputs.Output, lambda first, second: Kept(a=first, b=second), Scores], ids=["model", "kept", "data"]
)
@pytest.mark.parametrize("shape", [tuple, dict], ids=["tuple", "dict"])
def test_results_are_of_the_references_class(make: Callable[..., Any], shape: type) -> None:
    wanted, packing = make(None, torch.ones(2)), Packing(2)
    assert packing.learn(wanted) is wanted
    logits = torch.zeros(2)
    got = packing.pack((logits,) if shape is tuple else {"logits": logits})

    assert type(got) is type(wanted)
    assert list(vars(got)) == list(vars(wanted)) and got == make(None, logits)


def run(text: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    path = folder / "best.py"
    path.write_text(text)
    return subprocess.run([sys.executable, "-I", str(path), *options], capture_output=True, text=True)


def test_as_a_program_it_checks_and_times_itself(tmp_path: Path) -> None:
    done = run(finish(PROBLEM, facts(), KERNEL, header="A kernel for scaled: 3.2x."), tmp_path, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["correct"] and report["kernel_used"]
    assert {check["what"] for check in report["checks"]} >= {"output 0", "gradient 0", "gradient 1"}
    assert {check["shape"] for check in report["checks"]} == {"main", "other"}
    assert {"eager", "kernel"} <= set(report["times_ms"])
    assert report["speedups"]["eager"].keys() == {"median", "low", "high"} and 0 <= report["background_load"] <= 1


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """As :func:`run`, in this process, which has imported torch: the exit status and what is printed."""

    def call(text: str, *options: str) -> tuple[object, str]:
        path = tmp_path / "best.py"
        path.write_text(text)
        monkeypatch.setattr(sys, "argv", [str(path), *options])
        with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
        return ended.value.code, capsys.readouterr().out

    return call


def test_as_a_program_it_says_what_is_wrong(run_here: Callable[..., Any]) -> None:
    status, printed = run_here(finish(PROBLEM, facts(), KERNEL.replace("+ eps", "- eps")), "--no-timing")
    assert status == 1
    assert "WRONG main: output 0" in printed and "does NOT agree" in printed


def test_as_a_program_it_says_what_it_is(run_here: Callable[..., Any]) -> None:
    text = finish(PROBLEM, facts(), KERNEL, header="A kernel for scaled: 3.2x.")
    status, printed = run_here(text, "--help")
    assert status == 0 and "A kernel for scaled: 3.2x." in printed
    assert run_here(text, "--nonsense")[0] == 2


@pytest.mark.parametrize(
    ("kernel", "refused", "expected"),
    [
        (KERNEL.replace("NotSupported", "RuntimeError"), "no sizes", [(4, 3)]),
        (KERNEL.replace("NotSupported", "RuntimeError"), "", [(4, 3), (7, 3)]),
        (KERNEL, "no sizes", [(4, 3), (7, 3)]),
    ],
    ids=["nowhere-else", "elsewhere", "says-no-by-itself"],
)
def test_at_other_sizes_a_kernel_computes_only_if_it_was_judged_at_some(
    kernel: str, refused: str, expected: list[object], tmp_path: Path
) -> None:
    kinds = (InputKind(name="held_out", shape="main", refused=refused), InputKind(name="nan", shape="main"))
    kernel = kernel.replace("class RuntimeError(NotImplementedError): pass\n", "")
    best = imported(finish(PROBLEM, facts(input_kinds=kinds), kernel), tmp_path, "best_scaled")
    for rows in (4, 7):
        x, w = torch.randn(rows, 3), torch.randn(3)
        assert torch.equal(best.kernel(x, w, 0.5), torch.tanh(x) * w + 0.5)
    assert calls_of(best) == expected
