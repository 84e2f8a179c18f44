"""The contract suite: is a finished file a drop-in for its reference? A program, and what the harness runs in a child.

    python -m kernelswarm.hardware.dropin.contract best.py [--json]

Every property of :mod:`.properties` is compared with the reference's own behaviour. The file's code runs here: only
the harness, which has walls, gives it files that nobody has judged.
"""

import argparse
import contextlib
import importlib
import io
import json
import math
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ...schemas import ContractProperty
from .comparing import copied, error_of
from .conditions import leaves
from .properties import ESSENTIAL, PROPERTIES
from .selfcheck import Carried
from .sides import NotApplicable, Side, size_of

InTF32 = Callable[[], contextlib.AbstractContextManager[object]]

SWITCHES = "torch's switches"
"""Whether the file leaves the settings of the process that imports it alone."""

OWN_ERRORS = 4
"""So many times the reference's own error is allowed, as the judge does: its gradients err more than its answer does,
and the library may choose another algorithm for the same call."""

KERNEL_USED = "kernel used"
"""Last property: all others hold of the reference itself."""


def check(path: Path, in_tf32: InTF32 = contextlib.nullcontext) -> tuple[ContractProperty, ...]:
    """Every property of the finished file at ``path``, in order.

    ``in_tf32``: while it is entered, convolutions are in TF32 where torch's switches permit that, whatever the library
    takes at their sizes.
    """
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(True)
    sys.path.insert(0, str(path.parent))
    try:
        contract = _Contract(path.stem, in_tf32)
        before = _switches()  # as the reference's own file leaves them: the candidate is executed when it is called
        checked = [contract.check(name) for name in PROPERTIES]
        return (*checked, _switches_kept(before), contract.kernel_used())
    finally:
        sys.path.remove(str(path.parent))


class _Contract:
    """One finished file, imported."""

    def __init__(self, name: str, in_tf32: InTF32) -> None:
        self._name, self._in_tf32 = name, in_tf32
        self._carried = Carried(vars(_imported(name)))
        self._inputs = min(map(self._carried.inputs, self._carried.shapes), key=size_of)
        """Drawn once: of large ones, drawing takes longer than calling. A side has copies."""

    def check(self, name: str) -> ContractProperty:
        """One property, on both sides."""
        action = PROPERTIES[name]
        try:
            expected = leaves(action(self._side(0)))
        except NotApplicable as why:
            return ContractProperty(name=name, applies=False, detail=str(why))
        except Exception as error:  # noqa: BLE001 - whatever the reference does not support asks nothing of a drop-in
            return ContractProperty(
                name=name, applies=False, detail=f"the reference does not do it: {_error_text(error)}"
            )
        try:
            expected, answer = self._answered(action, expected)
            wrong = self._difference(expected, answer)
            if wrong and self._carried.may_be_tf32():
                wrong = self._difference(expected, answer, self._in_other_precisions(action))
        except Exception as error:  # noqa: BLE001 - the drop-in's own error is the finding
            wrong = f"it raises {_error_text(error)}"
        return ContractProperty(name=name, ok=not wrong, is_essential=name in ESSENTIAL, detail=wrong)

    def _answered(self, action: Callable[[Side], Any], expected: list[Any]) -> tuple[list[Any], Any]:
        """What the drop-in comes to, and what is expected.

        That waits in main memory where a device's is too little for both: the reference had it for itself. Where
        nothing of it lies on a device, no room can be made.
        """
        try:
            return expected, action(self._side(1))
        except torch.OutOfMemoryError:
            if not any(map(_is_on_device, expected)):
                raise
            # its frames hold tensors until here
        devices = [getattr(leaf, "device", None) for leaf in expected]
        for index, leaf in enumerate(expected):
            if isinstance(leaf, torch.Tensor):
                expected[index] = leaf.detach().cpu()
        torch.cuda.empty_cache()
        answer = action(self._side(1))
        back = [leaf.to(device) if device else leaf for leaf, device in zip(expected, devices, strict=True)]
        return back, answer

    def kernel_used(self) -> ContractProperty:
        """Whether any of it was about the kernel: a drop-in that is the reference throughout has all properties."""
        is_used = self._carried.is_candidate_made
        detail = "" if is_used else "the reference computed every call: the kernel is for none that was made here"
        return ContractProperty(name=KERNEL_USED, ok=is_used, detail=detail)

    def _side(self, index: int) -> Side:
        call = self._carried.drop_in() if index else self._carried.reference()
        torch.manual_seed(0)
        return Side(
            call=call,
            inputs=copied(self._inputs),
            has_state=bool(self._carried.has_state),
            reimported=self._reimported,
        )

    def _reimported(self, data: bytes) -> Any:
        """Unpickle after the file was forgotten, as another process would."""
        modules = {name: sys.modules.pop(name) for name in list(sys.modules) if f"{name}.".startswith(f"{self._name}.")}
        try:
            return torch.load(io.BytesIO(data), weights_only=False)
        finally:
            sys.modules.update(modules)

    def _in_other_precisions(self, action: Callable[[Side], Any]) -> list[Any]:
        """What the reference does where no convolution runs in TF32, and where each does that may.

        Which of them do differs by sizes and order of memory. A mean that is zero is nothing but rounding, and in TF32
        thousands of times as far from it.
        """
        results = [self._in_full_precision(action)]
        # Tracing and compiling meet a mode that they do not know.
        with contextlib.suppress(Exception), self._in_tf32():
            results.append(action(self._side(0)))
        return results

    def _in_full_precision(self, action: Callable[[Side], Any]) -> Any:
        recurrent = torch.backends.cudnn.rnn.fp32_precision
        torch.backends.cudnn.allow_tf32 = False
        try:
            return action(self._side(0))
        finally:
            torch.backends.cudnn.allow_tf32 = True
            torch.backends.cudnn.rnn.fp32_precision = recurrent

    def _difference(self, expected: Any, answer: Any, others: Sequence[Any] = ()) -> str:
        """In which way two results differ; empty if they do not.

        With what the reference gives in ``others`` precisions: by more than several times the reference's own error.
        """
        expected_leaves, answer_leaves = leaves(expected), leaves(answer)
        if len(expected_leaves) != len(answer_leaves):
            return f"{len(answer_leaves)} values instead of {len(expected_leaves)}"
        own = [leaves(other) for other in others]
        for index, (right, got) in enumerate(zip(expected_leaves, answer_leaves, strict=True)):
            errors = [error_of(right, other[index]) for other in own if index < len(other)]
            most = max(filter(math.isfinite, errors), default=0.0)
            error, tolerance = error_of(right, got), max(self._carried.tolerance(right), OWN_ERRORS * most)
            if not error <= tolerance:
                return (
                    f"value {index}: {_shown(right, got)}"
                    if math.isinf(error)
                    else f"value {index} errs by {error:.3g}"
                )
        return ""


def _switches() -> dict[str, Any]:
    """What a file may set for its whole process, by name.

    Precisions by the newer switches: reading the older ones raises where these were set each by itself.
    """
    precisions = {
        "torch.backends.cuda.matmul.fp32_precision": torch.backends.cuda.matmul.fp32_precision,
        "torch.backends.mkldnn.matmul.fp32_precision": torch.backends.mkldnn.matmul.fp32_precision,
        "torch.backends.cudnn.conv.fp32_precision": torch.backends.cudnn.conv.fp32_precision,
        "torch.backends.cudnn.rnn.fp32_precision": torch.backends.cudnn.rnn.fp32_precision,
    }
    return {
        # Nothing set is as good as full precision, which the older switches set where they are put back.
        **{name: "ieee" if value == "none" else value for name, value in precisions.items()},
        "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
        "torch.backends.cudnn.deterministic": torch.backends.cudnn.deterministic,
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.get_num_threads()": torch.get_num_threads(),
    }


def _switches_kept(before: dict[str, Any]) -> ContractProperty:
    now = _switches()
    changed = [f"{name} is {now[name]} instead of {value}" for name, value in before.items() if now[name] != value]
    return ContractProperty(name=SWITCHES, ok=not changed, detail="; ".join(changed))


def _imported(name: str) -> types.ModuleType:
    for module_name in [key for key in sys.modules if f"{key}.".startswith(f"{name}.")]:
        del sys.modules[module_name]
    importlib.invalidate_caches()
    return importlib.import_module(name)


def _is_on_device(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.device.type != "cpu"


def _shown(right: Any, got: Any) -> str:
    if isinstance(right, torch.Tensor) and isinstance(got, torch.Tensor):
        return f"a {got.dtype} of shape {tuple(got.shape)} instead of a {right.dtype} of shape {tuple(right.shape)}"
    if isinstance(right, torch.Tensor) or isinstance(got, torch.Tensor):
        return f"a {type(got).__name__} instead of a {type(right).__name__}"
    return f"{got!r} instead of {right!r}"[:300]


def _error_text(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}"[:300] if text else type(error).__name__


def main(arguments: list[str]) -> int:
    """Print every property; exit status 0 if all hold."""
    parser = argparse.ArgumentParser(description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a finished file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    results = check(options.file.resolve())
    if options.json:
        listed = [
            {"name": result.name, "ok": result.ok, "applies": result.applies, "detail": result.detail}
            for result in results
        ]
        sys.stdout.write(json.dumps(listed, indent=2) + "\n")
    else:
        for result in results:
            verdict = "-" if not result.applies else "ok" if result.ok else "FAILS"
            sys.stdout.write(f"{verdict:5} {result.name}{': ' + result.detail if result.detail else ''}\n")
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
