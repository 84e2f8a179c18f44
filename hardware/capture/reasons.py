"""Why a reference was not captured, in one sentence for its author."""

import re
import traceback
from collections.abc import Sequence
from typing import Any

from ...schemas import ProblemError
from ..sources.source_lines import place_of

_BY_VALUES = {"GuardOnDataDependentSymNode", "DataDependentOutputException", "UserError"}
_INTERNALS = re.compile(r"Sym|Fake|Proxy|functorch|\b[su]\d+\b|Eq\(|tensor subclass|dispatch|TORCH_|torch\.export|0x")
_OTHER_AUTHORS = "`--author outside`, or a model, needs no graph"
"""What helps whatever the reason is: only the generator needs the graph."""
_BY_VALUES_HELP = "use torch.where or a mask, or make the number an argument of the constructor"
_OF_OPERATORS = re.compile(r"aten\.(\w+)")
_CALLED = re.compile(r"(\w+)\(\): ")
_MODULES = ("torch", "nn", "modules")


def check_inputs(inputs: Sequence[Any], labels: Sequence[str]) -> None:
    """Tensors inside lists, dictionaries and objects would be taken for constants.

    Raises:
        ProblemError: an input holds tensors and is none.
    """
    import torch

    from ..processes.objects import tensors_in

    for label, value in zip(labels, inputs, strict=False):
        if not isinstance(value, torch.Tensor) and tensors_in(value):
            raise ProblemError(
                f"the input `{label}` is a {type(value).__name__} of tensors, and generated kernels take tensors only"
            )


def why_not_captured(errors: Sequence[Exception]) -> str:
    """One sentence for the failures of several tracers, the most telling first: what it is about, and what helps."""
    own = [error for error in errors if isinstance(error, ProblemError)]
    if own:
        return str(own[0])
    by_values = [error for error in errors if type(error).__name__ in _BY_VALUES or "data-dependent" in str(error)]
    if by_values:
        place = _first_place([*by_values, *errors])
        cause = (
            f"the reference makes Python numbers or conditions of its tensors' values{place}: no graph can hold that"
        )
        return _with_help(cause, _BY_VALUES_HELP)
    if any(isinstance(error, RecursionError) for error in errors):
        return _with_help("the reference calls operators in too deep a chain to be traced", "make its loop shorter")
    cause, way = _construct(errors[0])
    return _with_help(f"PyTorch cannot trace the reference{_first_place(errors)}: {cause}", way)


def _with_help(cause: str, way: str) -> str:
    return "; ".join(filter(None, (cause, way, _OTHER_AUTHORS)))


def _construct(error: Exception) -> tuple[str, str]:
    """Which operator or construct of Python an error is about, and what may stand in its place, if anything."""
    text, module = str(error), _torch_module(error)
    if ".numpy()" in text:
        return "`.numpy()` takes its tensors out of PyTorch", "use PyTorch's operators there"
    if "_CachedForward" in text:
        return "it holds a module of torch.jit.script", "give the module that was scripted"
    if type(error).__name__ == "UnsupportedOperatorException" and (operator := _OF_OPERATORS.search(text)):
        kind = next((f" of {kind} tensors" for kind in ("sparse", "nested") if kind in operator[1]), "")
        dense = "use dense tensors and a mask" if kind else "write it with other operators"
        return f"`aten.{operator[1]}`{kind} cannot be traced", dense
    if module and _is_packed(error):
        return (
            f"torch.nn.{module} reads the sizes of a PackedSequence from a tensor's values",
            "give it the padded tensor, and mask what lies behind each length",
        )
    return f"{module and f'torch.nn.{module}: '}{_first_sentence(error)}", ""


def _torch_module(error: BaseException) -> str:
    """Class of PyTorch's own module whose ``forward`` an error went through last; empty if through none."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        owner = frame.f_locals.get("self")
        if frame.f_code.co_name == "forward" and (*type(owner).__module__.split("."),)[:3] == _MODULES:
            return type(owner).__name__
    return ""


def _is_packed(error: BaseException) -> bool:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(type(value).__name__ == "PackedSequence" for frame in frames for value in frame.f_locals.values())


def _first_place(errors: Sequence[Exception]) -> str:
    return next((place for error in errors if (place := place_of(error))), "")


def _first_sentence(error: Exception) -> str:
    text = str(error).strip().splitlines()
    first = text[0][:200] if text else ""
    name = type(error).__name__
    if not first or _INTERNALS.search(first) or _INTERNALS.search(name):
        called = _CALLED.match(first)
        subject = f"`{called[1]}`" if called else "it"
        return f"{subject} raises {_article(name)} while it is traced, and none when it runs"
    return f"{name}: {first}"


def _article(name: str) -> str:
    return "an error" if _INTERNALS.search(name) else f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"
