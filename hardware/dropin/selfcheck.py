"""Part of every finished file: ``python best.py``, which checks it against its reference and times it."""

import argparse
import contextlib
import copy
import inspect
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..machine.background_load import BackgroundLoad
from .bridge import derived
from .comparing import IN_FP32, IN_TF32, copied, cotangents, error_of, mapped, rounding
from .conditions import leaves
from .constructor import by_position, call_once, made_on

TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Least tolerance by type: of the error relative to an element's size and to the typical size of all."""
CALLS = 3
ROUNDS, FEWER_ROUNDS = 21, 7
ROUND_SECONDS = 0.03
LONG_SECONDS = 0.3
"""Where a call of each takes longer in all, fewer rounds have to do."""
OUTLYING = 1
"""Rounds on either side that the spread of a ratio leaves out."""
LEAST_LOAD = 0.2
"""Share of the cores that is said to have been others'."""
LARGEST_SPREAD = 2.0
"""High end over low end of a ratio, beyond which it is said to be noise."""
_AGAIN = "Run it again on an idle machine."
MOST_FOLLOWED = 1 << 24
"""Elements of the inputs up to which gradients are checked."""


def main(arguments: list[str], file: dict[str, Any]) -> int:
    """Run with the command line's ``arguments``; ``file`` are the finished file's globals. Returns the exit status."""
    options = _options(arguments, file)
    warnings.simplefilter("ignore")
    try:
        report = _report(file, timed=not options.no_timing)
    except KeyboardInterrupt:
        return 130
    finally:
        say("")
    sys.stdout.write(json.dumps(report, indent=2) + "\n" if options.json else _in_words(report, file))
    return 0 if report["correct"] else 1


def _options(arguments: list[str], file: dict[str, Any]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=file["__doc__"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit status: 0 it agrees with its reference, 1 it does not, 2 bad usage, 130 interrupted",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--no-timing", action="store_true", help="only check")
    return parser.parse_args(arguments)


def _report(file: dict[str, Any], *, timed: bool) -> dict[str, Any]:
    say("making the reference and the drop-in")
    problem = Carried(file)
    checks = [check for shape in problem.shapes for check in problem.checks(shape)]
    report = {
        "problem": file["SEARCHED"]["problem"],
        "device": problem.device,
        "torch": str(torch.__version__),
        "kernel_used": problem.is_kernel_used,
        "correct": all(check["ok"] for check in checks),
        "checks": checks,
    }
    return {**report, **(problem.times() if timed else {})}


class Carried:
    """The reference that the file carries, and the drop-in beside it."""

    def __init__(self, file: dict[str, Any]) -> None:
        self._file, self._reference, self._searched = file, file["REFERENCE"], file["SEARCHED"]
        self.device = "cuda" if self._searched["device"] != "cpu" and torch.cuda.is_available() else "cpu"
        self._shapes: dict[str, Any] = getattr(self._reference, "shapes", None) or {"main": {}}
        self.shapes = list(self._shapes)
        self.is_kernel_used = False
        self.has_state = bool(self._searched["state"] or self._searched["writes"])
        self._model: Any = None
        self._drop_in: Any = None
        if self._searched["is_module"]:
            self._model = self._sized(self._reference.Model)

    @property
    def is_candidate_made(self) -> bool:
        """Whether a call has been for the kernel."""
        return bool(self._file["CANDIDATE"].is_made)

    def inputs(self, shape: str, seed: int = 0) -> list[Any]:
        """The problem's own inputs at ``shape``."""
        torch.manual_seed(seed)
        if self._model is None:
            drawn = self._reference.inputs(torch.Generator().manual_seed(seed), **self._shapes[shape])
        else:
            drawn = self._reference.get_inputs()
        forward = self._reference.reference if self._model is None else self._model.forward
        return self._listed(forward, drawn)

    def _listed(self, forward: Callable[..., Any], drawn: Any) -> list[Any]:
        listed = by_position(forward, drawn)
        return [mapped(value, lambda tensor: tensor.to(self.device)) for value in listed]

    def pair(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Reference and drop-in; modules with the same weights and state."""
        return self.reference(), self.drop_in()

    def reference(self) -> Callable[..., Any]:
        """The reference; a module of its own each time."""
        if self._model is None:
            function: Callable[..., Any] = self._reference.reference
            return function
        module: Callable[..., Any] = self._fresh(self._model, self._reference.Model)
        return module

    def drop_in(self) -> Callable[..., Any]:
        """The drop-in; a module of its own each time, with the reference's weights and state."""
        if self._model is None:
            function: Callable[..., Any] = self._file["kernel"]
            return function
        if self._drop_in is None:
            self._drop_in = self._made(self._file["ModelNew"])
        module: Callable[..., Any] = self._fresh(self._drop_in, self._file["ModelNew"])
        return module

    def _fresh(self, model: Any, make: Callable[..., Any]) -> Any:
        """Another one like ``model``, which nobody has called; a copy, since drawing large weights takes a while."""
        values = [value for part in model.modules() for value in vars(part).values()]
        # What closes over a submodule, as `lambda x: m(x)` does, has the original's in a copy.
        has_closures = any(getattr(value, "__closure__", None) for value in values)
        if not has_closures:
            # Torch copies no tensor that was computed of parameters, as weight norm keeps one.
            with contextlib.suppress(RuntimeError):
                return copy.deepcopy(model)
        return self._made(make)

    def _sized(self, make: Callable[..., Any]) -> Any:
        """A module whose layers all have their sizes."""
        device = torch.device(self.device)
        arguments = self._file["FINISHED"].constructor_arguments()
        module, _ = made_on(device, make, arguments, lambda: torch.manual_seed(0))
        module = module.to(device)
        call_once(module, lambda: self._listed(module.forward, self._reference.get_inputs()))
        return module

    def _made(self, make: Callable[..., Any]) -> Any:
        """Another module with the reference's weights."""
        module = self._sized(make)
        module.load_state_dict(self._model.state_dict())
        return module

    def checks(self, shape: str) -> Iterator[dict[str, Any]]:
        """Outputs and state after each of several calls, and gradients, at ``shape``."""
        say(f"checking shape {shape}")
        reference, drop_in = self.pair()
        inputs = self.inputs(shape)
        with torch.no_grad():
            for call in range(CALLS):
                right, got = copied(inputs), copied(inputs)
                pairs = zip(leaves(reference(*right)), leaves(drop_in(*got)), strict=False)
                for index, (expected, answer) in enumerate(pairs):
                    if call == CALLS - 1:
                        yield self._compared(shape, f"output {index}", expected, answer)
            self.is_kernel_used = self.is_candidate_made
        for name, expected, answer in _named("input", right, got):
            yield self._compared(shape, name, expected, answer)
        states = list(states_of(reference, drop_in))
        least = rounding([(name, expected) for name, expected, _ in states], IN_TF32 if self.may_be_tf32() else IN_FP32)
        for (name, expected, answer), size in zip(states, least, strict=True):
            yield self._compared(shape, name, expected, answer, least=size)
        size = sum(leaf.numel() for leaf in leaves(inputs) if isinstance(leaf, torch.Tensor))
        if size <= MOST_FOLLOWED:
            for name, expected, answer in _gradients(*self.pair(), inputs):
                yield self._compared(shape, name, expected, answer)

    def may_be_tf32(self) -> bool:
        """Whether convolutions may run in TF32, whatever the library takes at their sizes."""
        return self.device != "cpu" and torch.backends.cudnn.conv.fp32_precision == "tf32"

    def _compared(self, shape: str, what: str, expected: Any, answer: Any, least: float = 0.0) -> dict[str, Any]:
        error, tolerance = error_of(expected, answer, least), self.tolerance(expected)
        return {"shape": shape, "what": what, "error": error, "tolerance": tolerance, "ok": error <= tolerance}

    def tolerance(self, expected: Any) -> float:
        """What is allowed: the type's, or several times what the judge or the problem allows, if that is more."""
        stated = getattr(self._reference, "tolerance", None)
        own = stated if isinstance(stated, int | float) else max(stated.values(), default=0.0) if stated else 0.0
        least = TOLERANCES.get(getattr(expected, "dtype", None), 1e-4 if isinstance(expected, float) else 0.0)
        return max(least, 4 * (self._searched["bound"] or 0.0), 2 * own) if least else 0.0

    def times(self) -> dict[str, Any]:
        """Medians of rounds in turns, without gradients, at every timed shape; of several the first by itself, too."""
        timed = self._searched["timed"]
        by_shape = {shape: self._times_at(shape) for shape in timed}
        return {**by_shape[timed[0]], **({"shapes": by_shape} if len(timed) > 1 else {})}

    def _times_at(self, shape: str) -> dict[str, Any]:
        reference, drop_in = self.pair()
        inputs = self.inputs(shape)
        calls = {"eager": reference, "compile": torch.compile(reference, dynamic=False), "kernel": drop_in}
        missing: dict[str, str] = {}
        with torch.no_grad():
            for name, call in list(calls.items()):
                say(f"first calls at shape {shape}: {name}")
                try:
                    for _ in range(CALLS):
                        call(*inputs)
                except Exception as error:  # noqa: BLE001 - a baseline that does not work here is left out, and said
                    missing[name] = f"{type(error).__name__}: {error}".splitlines()[0]
                    del calls[name]
            took = {name: self._seconds(call, inputs, 1) for name, call in calls.items()}
            counts = {name: max(1, int(ROUND_SECONDS / seconds)) for name, seconds in took.items()}
            last = ROUNDS if sum(took.values()) < LONG_SECONDS else FEWER_ROUNDS
            rounds: dict[str, list[float]] = {name: [] for name in calls}
            order, load = list(calls), BackgroundLoad([])
            for number in range(last):
                say(f"timing shape {shape}: round {number + 1} of {last}")
                for name in order:
                    rounds[name].append(self._seconds(calls[name], inputs, counts[name]) * 1000)
                order.append(order.pop(0))  # Nobody is always behind the same one.
        return {
            "times_ms": {name: statistics.median(samples) for name, samples in rounds.items()},
            "speedups": speedups(rounds),
            "background_load": load.share(),
            "rounds_ms": rounds,
            **({"not_timed": missing} if missing else {}),
        }

    def _seconds(self, call: Callable[..., Any], inputs: list[Any], count: int) -> float:
        """Wall clock of one call, of ``count`` in a row."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            call(*inputs)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - began) / count


def speedups(rounds: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """By baseline: the median of the ratios of every round, and the ends of all of them but the outlying ones."""
    ratios = {
        name: sorted(other / own for other, own in zip(samples, rounds["kernel"], strict=True))
        for name, samples in rounds.items()
        if name != "kernel" and "kernel" in rounds
    }
    return {
        name: {"median": statistics.median(each), "low": each[OUTLYING], "high": each[-1 - OUTLYING]}
        for name, each in ratios.items()
    }


def say(step: str) -> None:
    """On a terminal, what takes its time right now, in place of what was said before."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{step}")
        sys.stderr.flush()


def states_of(reference: Any, drop_in: Any) -> Iterator[tuple[str, Any, Any]]:
    """Everything that two modules keep: parameters, buffers, numbers."""
    if not isinstance(reference, torch.nn.Module):
        return
    for (path, reference_part), (_, drop_in_part) in zip(
        reference.named_modules(), drop_in.named_modules(), strict=True
    ):
        values = {**reference_part.__dict__, **reference_part._parameters, **reference_part._buffers}
        passed_over = {"training", *derived(reference_part)}
        for key, expected in values.items():
            if isinstance(expected, torch.Tensor | bool | int | float) and key not in passed_over:
                yield f"state {path}.{key}".replace(" .", " "), expected, getattr(drop_in_part, key, None)


def _named(kind: str, expected: list[Any], answers: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    for index, (expected_leaf, answer_leaf) in enumerate(zip(leaves(expected), leaves(answers), strict=True)):
        if isinstance(expected_leaf, torch.Tensor):
            yield f"{kind} {index}", expected_leaf, answer_leaf


def _gradients(reference: Any, drop_in: Any, inputs: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Gradients of a random sum of the outputs; none where the reference has none."""
    grads = []
    for call in (reference, drop_in):
        taken = copied(inputs)
        followed = [leaf for leaf in leaves(taken) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
        for leaf in followed:
            leaf.requires_grad_()
        try:
            with torch.enable_grad():
                ends = [
                    output
                    for output in leaves(call(*taken))
                    if isinstance(output, torch.Tensor) and output.requires_grad
                ]
                sums = [(end * weight).sum() for end, weight in zip(ends, cotangents(ends), strict=True)]
                if sums:
                    torch.stack(
                        [total.abs() if total.is_complex() else total.double() for total in sums]
                    ).sum().backward()
        except RuntimeError:
            if call is reference:
                return
            raise
        weights = list(call.parameters()) if isinstance(call, torch.nn.Module) else []
        grads.append([leaf.grad for leaf in (*followed, *weights)])
    for index, (expected, answer) in enumerate(zip(*grads, strict=True)):
        if expected is not None:
            yield f"gradient {index}", expected, answer


def _by_whom(report: dict[str, Any], file: dict[str, Any]) -> str:
    if report["kernel_used"]:
        return "the kernel"
    if report["device"] == "cpu" and file["SEARCHED"]["device"] == "cuda":
        return "the reference, not the kernel, which needs a CUDA device that torch can use"
    return "the reference, not the kernel, which is for other calls"


def _times_in_words(report: dict[str, Any]) -> Iterator[str]:
    ratios = report.get("speedups", {})
    for name, median in report.get("times_ms", {}).items():
        ratio = ""
        if name in ratios:
            ratio = "  {median:.2f}x ({low:.2f} to {high:.2f} in ".format(**ratios[name])
            rounds = len(report["rounds_ms"][name])
            ratio += f"{rounds - 2 * OUTLYING} of {rounds} rounds)"
        yield f"{_label(name):13} {median:.4f} ms{ratio}"
    yield from (f"{_label(name):13} not timed: {why}" for name, why in report.get("not_timed", {}).items())
    if report.get("background_load", 0.0) >= LEAST_LOAD:
        load = f"Other work kept {report['background_load']:.0%} of the cores busy meanwhile"
        yield f"{load}: these ratios say little. {_AGAIN}"
    elif any(each["high"] > LARGEST_SPREAD * each["low"] for each in ratios.values()):
        yield f"The rounds differ by more than a factor of two: these ratios say little. {_AGAIN}"


def _measured_in_words(description: str) -> Iterator[str]:
    """What the search measured of the kernel, as the file's description has it."""
    _, *measured = inspect.cleandoc(description).partition("\n\nUse: ")[0].split("\n\n")
    if measured:
        yield from ("", "These times are a quick check. The search measured more carefully:", "\n\n".join(measured), "")


def _label(name: str) -> str:
    return "torch.compile" if name == "compile" else name


def _in_words(report: dict[str, Any], file: dict[str, Any]) -> str:
    lines = [inspect.cleandoc(file["__doc__"]).partition("\n\n")[0], ""]
    exact = [check for check in report["checks"] if check["ok"] and not check["error"]]
    settings = [check for check in exact if not check["tolerance"] and check["what"].startswith("state ")]
    # Where neither side follows an input, or both do by the reference, there is nothing to compare.
    gradients = [check for check in exact if check["what"].startswith("gradient ")]
    for check in (check for check in report["checks"] if check not in settings + gradients):
        verdict = "ok   " if check["ok"] else "WRONG"
        lines.append(f"{verdict} {check['shape']}: {check['what']}: {check['error']:.2g} of {check['tolerance']:.2g}")
    lines += [f"ok    {len(settings)} numbers and settings: equal"] if settings else []
    lines += [f"ok    {len(gradients)} gradients: equal"] if gradients else []
    lines += ["", f"On {report['device']}, torch {report['torch']}: computed by {_by_whom(report, file)}."]
    times = report.get("times_ms", {})
    if times and report["device"] != "cpu":
        lines.append("Times are those of the call, host overhead included, not the device's own.")
    if times and getattr(file["REFERENCE"], "backward", False):
        lines.append("Times are of calls without gradients; the search timed the backward pass as well.")
    for shape, timed in report.get("shapes", {"": report}).items():
        lines += [f"At shape {shape}:"] if shape else []
        lines += _times_in_words(timed)
    lines += (
        ["A ratio is the median of the rounds' own ratios, not of the times above."] if report.get("speedups") else []
    )
    lines += _measured_in_words(file["__doc__"]) if times else []
    lines.append("It agrees with its reference." if report["correct"] else "It does NOT agree with its reference.")
    return "\n".join(lines) + "\n"
