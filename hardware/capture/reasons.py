"""Why a reference was not captured, in one sentence for its author."""

import linecache
import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...schemas import ProblemError

_BY_VALUES = {"GuardOnDataDependentSymNode", "DataDependentOutputException", "UserError"}
_INTERNALS = re.compile(r"Sym|Fake|Proxy|functorch|\b[su]\d+\b|Eq\(|tensor subclass|dispatch|TORCH_|torch\.export|0x")
_OWN = Path(__file__).parents[1]
_STANDARD_LIBRARY = Path(traceback.__file__).parent


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
    """One sentence for the failures of several tracers, the most telling first."""
    own = [error for error in errors if isinstance(error, ProblemError)]
    if own:
        return str(own[0])
    by_values = [error for error in errors if type(error).__name__ in _BY_VALUES or "data-dependent" in str(error)]
    if by_values:
        place = _first_place([*by_values, *errors])
        return f"the reference makes Python numbers or conditions of its tensors' values{place}: no graph can hold that"
    if any(isinstance(error, RecursionError) for error in errors):
        return "the reference calls operators in too deep a chain to be traced"
    return f"PyTorch cannot trace the reference{_first_place(errors)}: {_first_sentence(errors[0])}"


def _first_place(errors: Sequence[Exception]) -> str:
    return next((place for error in errors if (place := _place(error))), "")


def _place(error: BaseException) -> str:
    """The innermost line of the author's own code that the error went through."""
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(file, line) for file, line in lines if _is_authors(file)]
    if not own:
        return ""
    file, line = own[-1]
    text = linecache.getline(file, line).strip()
    return f" in line {line}" + (f" (`{text}`)" if text else "")


def _is_authors(file: str) -> bool:
    path = Path(file)
    is_installed = {"site-packages", "dist-packages"} & set(path.parts) or path.is_relative_to(_STANDARD_LIBRARY)
    return not (file.startswith("<") or is_installed or path.is_relative_to(_OWN))


def _first_sentence(error: Exception) -> str:
    text = str(error).strip().splitlines()
    first = text[0][:200] if text else ""
    name = type(error).__name__
    if not first or _INTERNALS.search(first) or _INTERNALS.search(name):
        return "it raises an error while it is traced, and none when it runs"
    return f"{name}: {first}"
