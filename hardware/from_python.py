"""A live PyTorch function or module as a problem file: traced to ATen, written out as text, free of the caller's code.

Runs in the user's process, which has torch already; the text is what travels, is hashed and is searched.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..schemas import Problem, ProblemError, ProblemFormat, sha256

HEADER = '''"""{title}, traced from a live {kind} by kernelswarm.optimize: the ATen operators that eager dispatches.

Inputs are drawn like the ones that were given: shape, dtype, range or mean and deviation, order.
"""

import torch
from torch import device, inf, nan  # noqa: F401

shapes = {{"main": {{}}}}

'''


@dataclass(frozen=True)
class Traced:
    """A problem, and the tensors that a kernel for it takes beside the caller's inputs."""

    problem: Problem
    parameters: tuple[Any, ...]
    """Weights, buffers and constants, in the order in which ``reference`` takes them after the inputs."""


def trace(operator: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any], name: str = "") -> Traced:
    """Write ``operator`` applied to ``inputs`` as a problem.

    Args:
        operator: a function or ``nn.Module``.
        inputs: its arguments: tensors and numbers, by position or by name.
        name: the problem's name; by default the operator's.

    Raises:
        ProblemError: it cannot be traced, or an input is neither a tensor nor a number.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    values, names = _arguments(operator, inputs)
    for label, value in zip(names, values, strict=True):
        if not isinstance(value, torch.Tensor | bool | int | float):
            raise ProblemError(f"input {label!r} is a {type(value).__name__}: give tensors and numbers")
    parameters = _parameters(operator)
    tensors = {label: value for label, value in zip(names, values, strict=True) if isinstance(value, torch.Tensor)}

    def flat(*args: Any) -> Any:
        given = dict(zip([*tensors, *parameters], args, strict=True))
        call = [given.get(label, value) for label, value in zip(names, values, strict=True)]
        if not parameters:
            return operator(*call)
        weights = {key: given[key] for key in parameters}
        return torch.func.functional_call(operator, weights, tuple(call))

    try:
        with torch.no_grad():
            graph = make_fx(flat, pre_dispatch=True, _allow_non_fake_inputs=True)(
                *tensors.values(), *parameters.values()
            )
    except Exception as error:  # whatever the user's code raises while traced becomes one sentence
        told = str(error).strip().splitlines()
        raise ProblemError(
            f"{_label(operator)} cannot be traced: {type(error).__name__}: {told[0] if told else ''}"
        ) from error
    constants = {key: value for key, value in vars(graph).items() if key.startswith("_tensor_constant")}
    constants |= {key: value for key, value in graph.named_buffers() if key.startswith("_tensor_constant")}
    title = name or _label(operator)
    everything = {**tensors, **{_identifier(key): value for key, value in parameters.items()}, **constants}
    kind = "module" if isinstance(operator, torch.nn.Module) else "function"
    source = HEADER.format(title=title, kind=kind) + _inputs_text(everything) + _reference_text(graph.code, everything)
    problem = Problem(
        name=_identifier(title).lower()[:40], format=ProblemFormat.function, source=source, sha256=sha256(source)
    )
    return Traced(problem, (*parameters.values(), *constants.values()))


def _arguments(operator: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """Values and parameter names of the call, defaults filled in where inputs are given by name."""
    function = getattr(operator, "forward", operator)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None
    values = [inputs[key] for key in inputs] if isinstance(inputs, Mapping) else list(inputs)
    if signature is None:
        return values, [f"x{index}" for index in range(len(values))]
    try:
        bound = signature.bind(**inputs) if isinstance(inputs, Mapping) else signature.bind(*values)
    except TypeError as error:
        raise ProblemError(f"{_label(operator)} does not take these inputs: {error}") from error
    names: list[str] = []
    flat: list[Any] = []
    for key, value in bound.arguments.items():
        many = signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL
        for index, item in enumerate(value if many else [value]):
            names.append(f"{key}{index}" if many else key)
            flat.append(item)
    return flat, names


def _parameters(operator: Callable[..., Any]) -> dict[str, Any]:
    import torch

    if not isinstance(operator, torch.nn.Module):
        return {}
    held = {**dict(operator.named_parameters()), **dict(operator.named_buffers())}
    return {key: value.detach() for key, value in held.items()}


def _label(operator: Callable[..., Any]) -> str:
    return getattr(operator, "__name__", type(operator).__name__).replace("<lambda>", "function")


def _identifier(text: str) -> str:
    name = re.sub(r"\W", "_", text) or "operator"
    return f"p_{name}" if name[0].isdigit() else name


def _inputs_text(tensors: Mapping[str, Any]) -> str:
    lines = [f"        {_drawn(value)},  # {_identifier(label)}" for label, value in tensors.items()]
    return "\ndef inputs(generator):\n    return [\n" + "\n".join(lines) + "\n    ]\n"


def _drawn(value: Any) -> str:
    """A torch expression that draws a tensor like ``value``."""
    import torch

    shape = tuple(value.shape)
    if value.dtype is torch.bool:
        return f"torch.rand({shape}, generator=generator) < {float(value.float().mean()) if value.numel() else 0.5:.4f}"
    low, high = (value.min().item(), value.max().item()) if value.numel() else (0, 1)
    order = ".sort().values" if value.ndim == 1 and value.numel() > 2 and bool((value.diff() >= 0).all()) else ""
    if not value.dtype.is_floating_point:
        return f"torch.randint({low}, {high + 1}, {shape}, generator=generator, dtype={value.dtype}){order}"
    wide = value.double()
    mean = float(wide.mean()) if value.numel() else 0.0
    if value.numel() and low >= 0:
        span = f"torch.rand({shape}, generator=generator).mul({high - low!r}).add({low!r})"
        return f"{span}.to({value.dtype}){order}"
    std = float(wide.std()) if value.numel() > 1 else 1.0
    return f"torch.randn({shape}, generator=generator).mul({std!r}).add({mean!r}).to({value.dtype}){order}"


def _reference_text(code: str, tensors: Mapping[str, Any]) -> str:
    """FX's ``forward`` as a plain function of inputs, parameters and constants."""
    match = re.search(r"def forward\(self(?:, )?(.*?)\):\n(.*)", code, re.DOTALL)
    if match is None:
        raise ProblemError("the traced graph has no forward function; please report this operator")
    traced = [name.strip() for name in match.group(1).split(",") if name.strip()]
    names = [_identifier(label) for label in tensors]
    unpack = [f"    {inner} = {outer}" for inner, outer in zip(traced, names, strict=False) if inner != outer]
    body = match.group(2).replace("self._tensor_constant", "_tensor_constant")
    body = re.sub(r";  (\w+ = )+None", "", body).rstrip()
    return f"\n\ndef reference({', '.join(names)}):\n" + "\n".join([*unpack, body]) + "\n"
