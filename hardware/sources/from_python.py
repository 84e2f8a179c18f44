"""A live PyTorch function or module as a problem file: traced to ATen, written out as text, free of the caller's code.

Runs in the user's process, which has torch already; the text is what travels, is hashed and is searched.
"""

import functools
import itertools
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_not, itemgetter
from pathlib import Path
from typing import Any

from ...schemas import Problem, ProblemError, ProblemFormat, sha256
from .call_arguments import by_place_and_name, flattened, is_structure, signature_of
from .drawn_inputs import copied, identifier, inputs_text, read_for_sizes, redrawn
from .dynamic_shapes import DynamicSize
from .kept_settings import LARGEST_ARRAYS, bytes_of_arrays, kept, owned_by
from .module_state import (
    buffers_of,
    called,
    contents_of,
    is_held,
    parameters_of,
    restored,
    settings,
    without_new_buffers,
)
from .trace_failures import dropout_way_out, reason_of, refusing_values
from .traced_positions import CHANGED, PositionsAsIndices

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word of a class's name begins."""
_RETURN = "return tensors and numbers, or tuples, lists and dictionaries of these"
_CONSTANT = re.compile(r"_(tensor|param)_constant\d+")
"""What a graph holds beside its arguments: tensors, and weights of modules that a function closes over."""
_GRADIENTS = re.compile(r"torch\._C\._set_grad_enabled\((True|False)\)")

HEADER = '''"""{title}, traced from a live {kind} by kernelswarm.optimize: the ATen operators that eager dispatches.

Inputs are drawn like the ones that were given: shape, dtype, range or mean and deviation, order.
"""

import torch
from torch import device, inf, nan  # noqa: F401

shapes = {{"main": {{}}}}

'''


@dataclass(frozen=True)
class Traced:
    """A problem, and how a call of the operator becomes one of a kernel for it.

    A kernel takes the tensors among the inputs, then the module's parameters and buffers, then the constants.
    """

    problem: Problem
    operator: Callable[..., Any] | None = None
    """The caller's own; None for a problem file."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What it was traced with, by name as :func:`.call_arguments.flattened` gives it: detached tensors and numbers."""
    names: tuple[str, ...] = ()
    """Of the module's parameters and buffers."""
    constants: tuple[Any, ...] = ()
    """Tensors that the operator made or held elsewhere."""
    settings: tuple[tuple[type, dict[str, Any]], ...] = ()
    """Of the module and its parts, as :func:`settings` says it; ``training`` is None where that changes nothing."""
    parts: tuple[str, ...] = ()
    """Names of the module's parts."""
    structure: Any = None
    """Of the result, as ``torch.utils._pytree`` says it."""
    further: tuple[Mapping[str, Any], ...] = ()
    """Inputs of the other calls that it was traced with, each as :attr:`inputs`."""
    dynamic: tuple[DynamicSize, ...] = ()
    """Sizes that may be others."""
    covered: Container[tuple[int, ...]] = ()
    """The sizes, one for each of :attr:`dynamic`, at which the operator is known to be what the text says."""

    @property
    def calls(self) -> tuple[Mapping[str, Any], ...]:
        """Inputs of every call that it was traced with."""
        return (self.inputs, *self.further)

    @property
    def parameters(self) -> tuple[Any, ...]:
        """What a kernel takes after the inputs, as it is now."""
        held = parameters_of(self.operator) if self.operator is not None else {}
        return (*(held[name] for name in self.names), *self.constants)


def trace(operator: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any], name: str = "") -> Traced:
    """Write ``operator`` applied to ``inputs`` as a problem.

    Args:
        operator: a function or ``nn.Module``.
        inputs: its arguments, by position or by name: tensors, numbers, None; lists, tuples, dictionaries of them.
        name: the problem's name; by default the operator's.

    Raises:
        ProblemError: it cannot be traced, or an input is neither a tensor, a number nor None.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._pytree import tree_leaves, tree_structure

    values, names = _arguments(operator, inputs)
    for label, value in zip(names, values, strict=True):
        if value is not None and not (isinstance(value, torch.Tensor | bool | int | float) or is_structure(value)):
            raise ProblemError(
                f"input {label!r} is a {type(value).__name__}: give tensors, numbers, None, and plain lists, tuples "
                "and dictionaries of these, or write a problem file, which takes other objects too (docs/problems.md)"
            )
        if isinstance(value, torch.Tensor) and not value.numel():
            raise ProblemError(f"input {label!r} has no elements: give the tensors of a usual call")
        if isinstance(value, torch.Tensor) and (value.is_meta or value.layout is not torch.strided):
            kind = "has no numbers (it lies on meta)" if value.is_meta else f"is {str(value.layout).split('.')[-1]}"
            raise ProblemError(f"input {label!r} {kind}: give a dense tensor with the numbers of a usual call")
    _refuse_dropout(operator)
    _refuse_large_arrays(operator)
    parameters = parameters_of(operator)
    tensors = {label: value for label, value in zip(names, values, strict=True) if isinstance(value, torch.Tensor)}

    def flat(*args: Any) -> Any:
        given = dict(zip([*tensors, *parameters], args, strict=True))
        call = {label: given.get(label, value) for label, value in zip(names, values, strict=True)}
        positional, named = by_place_and_name(operator, call)
        leaves = tree_leaves((positional, named))
        with refusing_values(), PositionsAsIndices() as indexing:
            result = called(operator, positional, named, {key: given[key] for key in parameters})
        if indexing.is_changed:
            raise ProblemError(f"{_label(operator)} cannot be traced: {CHANGED}")
        positions.update(indexing.bounds(given))
        structures.append(tree_structure(result))
        numbers = (torch.Tensor, bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool, type(None))
        if others := [leaf for leaf in tree_leaves(result) if not isinstance(leaf, numbers)]:
            raise ProblemError(
                f"{_label(operator)} cannot be traced: it returns a {type(others[0]).__name__}; {_RETURN}"
            )
        after = tree_leaves((positional, named))
        refilled.append(len(after) != len(leaves) or any(map(is_not, after, leaves)))
        return _plain(result)

    def traced(inputs: Mapping[str, Any] = tensors) -> Any:
        # It runs the operator: what that writes must not show in the caller's tensors.
        own = [copied(value.detach()) for value in (*inputs.values(), *parameters.values())]
        # With gradients on, as in training: the graph then says where the operator turns them off.
        with torch.enable_grad():
            return make_fx(flat, pre_dispatch=True, _allow_non_fake_inputs=True)(*own)

    structures: list[Any] = []
    refilled: list[bool] = []
    positions: dict[str, int] = {}
    before, contents, buffers = settings(operator), contents_of(operator), buffers_of(operator)
    try:
        graph = traced()
    except ProblemError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises while traced becomes one sentence
        # Without the tracer's own traceback: a hundred lines that end in this sentence.
        raise ProblemError(f"{_label(operator)} cannot be traced: {reason_of(error, operator)}") from None
    finally:
        changed = restored(operator, before, contents)
        made = without_new_buffers(operator, buffers)
    if made:
        raise ProblemError(
            f"{_label(operator)} cannot be traced: a call makes its buffer {made!r}; call it once before the search"
        )
    if changed:
        raise ProblemError(
            f"{_label(operator)} cannot be traced: a call changes its attribute {changed!r}, which a kernel would not; "
            f"{_instead(operator, changed)}"
        )
    if any(refilled):
        raise ProblemError(
            f"{_label(operator)} cannot be traced: a call puts something into a list or dictionary among its inputs, "
            "which a kernel would not; return it instead"
        )
    if way_out := dropout_way_out(operator, graph.graph):
        raise ProblemError(f"{_label(operator)} draws random numbers that no kernel can repeat: {way_out}")
    weights = {key: value.detach() for key, value in graph.named_parameters()}
    held = {**vars(graph), **dict(graph.named_buffers()), **weights}
    constants = {key: value for key, value in held.items() if _CONSTANT.fullmatch(key)}
    if not _uses_inputs(graph.graph) or any(map(torch._C._functorch.is_functorch_wrapped_tensor, constants.values())):
        raise ProblemError(
            f"{_label(operator)} cannot be traced: its result does not come from its inputs by PyTorch's operators; do "
            "without NumPy, lists and numbers of Python on the way, and without transforms of torch.func (vmap, grad)"
        )
    for label, size in [*positions.items()]:
        # What is indexed by a number made of it may have another size.
        ends = [{**tensors, label: torch.full_like(tensors[label], end)} for end in (0, size - 1)]
        if not all(_runs(graph, [copied(value) for value in (*end.values(), *parameters.values())]) for end in ends):
            del positions[label]
    title = name or _label(operator)
    everything = {**tensors, **{identifier(key): value for key, value in parameters.items()}, **constants}
    if by_values := read_for_sizes(graph, list(tensors)):
        try:
            is_fixed = all(traced(redrawn(tensors, seed)).code == graph.code for seed in range(3))
        except Exception:  # noqa: BLE001 - whatever the user's code raises for numbers that nobody gave it
            is_fixed = False
        finally:
            restored(operator, before, contents)
        if not is_fixed:
            raise ProblemError(
                f"{_label(operator)} has sizes that depend on the values of {' and '.join(by_values)}, and a kernel is "
                "judged on values that are drawn anew: its sizes are others there. Write a problem file, whose "
                "`inputs()` gives the values, and whose `reference` reads the sizes (docs/problems.md)"
            )
    kind = "module" if isinstance(operator, torch.nn.Module) else "function"
    source = (
        HEADER.format(title=title, kind=kind)
        + inputs_text(everything, positions)
        + _reference_text(graph.code, everything)
    )
    problem = Problem(
        name=identifier(title).lower()[:40], format=ProblemFormat.function, source=source, sha256=sha256(source)
    )
    inputs = {
        label: value.detach() if isinstance(value, torch.Tensor) else value
        for label, value in zip(names, values, strict=True)
    }
    modes = {} if _depends_on_mode(operator, graph.code, traced) else {"training": None}
    module: Any = operator
    owned = owned_by(module) if before else {}
    kinds = tuple(
        (kind, {key: None if is_held(value) else kept(value, owned) for key, value in attributes.items()} | modes)
        for kind, attributes in before
    )
    parts = tuple(name for name, _ in module.named_modules()) if before else ()
    return Traced(problem, operator, inputs, tuple(parameters), tuple(constants.values()), kinds, parts, structures[0])


def _runs(graph: Any, arguments: list[Any]) -> bool:
    try:
        graph(*arguments)
    except Exception:  # noqa: BLE001 - whatever it raises, the numbers are none for it
        return False
    return True


def _plain(result: Any) -> Any:
    """``result`` with tuples, lists and dictionaries for kinds of them: a graph's text would name the kind."""
    if isinstance(result, tuple):
        return tuple(map(_plain, result))
    if isinstance(result, list):
        return list(map(_plain, result))
    return {key: _plain(value) for key, value in result.items()} if isinstance(result, dict) else result


def _instead(operator: Any, attribute: str) -> str:
    """What to do about an attribute that a call changes."""
    hooks = [hook for part in operator.modules() for hook in part._forward_pre_hooks.values()]
    for hook in hooks:
        package, _, function = type(hook).__module__.rpartition(".")
        if package == "torch.nn.utils" and getattr(hook, "name", None) == attribute:
            return (
                f"{package}.{function} computes it anew in each call: call {package}.remove_{function} on that part, "
                f"or make the module with {package}.parametrizations.{function}"
            )
    return "make it a buffer, which a call may write"


def _refuse_dropout(operator: Any) -> None:
    import torch

    kind: Any = torch.nn.modules.dropout._DropoutNd
    for name, part in operator.named_modules() if isinstance(operator, torch.nn.Module) else ():
        if isinstance(part, kind) and part.training and part.p > 0:
            place = f"its part {name!r}, a {type(part).__name__}," if name else "it"
            raise ProblemError(
                f"{_label(operator)} is in training mode, where {place} draws random numbers that no kernel can "
                "repeat: call .eval() on it"
            )


def _refuse_large_arrays(operator: Any) -> None:
    for kind, attributes in settings(operator):
        for key, value in attributes.items():
            if (size := bytes_of_arrays(value)) > LARGEST_ARRAYS:
                raise ProblemError(
                    f"the attribute {key!r} of {kind.__name__} holds {size / 1e6:.0f} MB of NumPy arrays, which would "
                    "be compared before every call of a kernel, because NumPy does not count writes: make it a tensor "
                    f"(`module.register_buffer({key!r}, torch.from_numpy(...))`), which takes no time, or write a "
                    "problem file (docs/problems.md)"
                )


def _uses_inputs(graph: Any) -> bool:
    """Whether a traced result depends on an argument; yes where there is none, or no tensor among the results."""
    arguments = [node for node in graph.nodes if node.op == "placeholder"]
    (output,) = (node for node in graph.nodes if node.op == "output")
    seen, waiting = {*output.all_input_nodes}, [*output.all_input_nodes]
    while waiting:
        further = {*waiting.pop().all_input_nodes} - seen
        seen |= further
        waiting += further
    return not arguments or not seen or any(node in seen for node in arguments)


def _depends_on_mode(operator: Any, code: str, traced: Callable[[], Any]) -> bool:
    """Whether a module computes something else in training mode than in evaluation; yes where that cannot be told."""
    before, contents = settings(operator), contents_of(operator)
    try:
        for mode in (True, False) if before else ():
            for part in operator.modules():
                part.training = mode
            if traced().code != code:
                return True
    except Exception:  # noqa: BLE001 - whatever the user's code raises in a mode in which nobody called it
        return True
    finally:
        restored(operator, before, contents)
    return False


def _arguments(operator: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any]) -> tuple[list[Any], list[str]]:
    """Values and parameter names of the call, defaults filled in where inputs are given by name."""
    signature = signature_of(operator)
    values = [inputs[key] for key in inputs] if isinstance(inputs, Mapping) else list(inputs)
    if signature is None:
        return values, [f"x{index}" for index in range(len(values))]
    try:
        bound = signature.bind(**inputs) if isinstance(inputs, Mapping) else signature.bind(*values)
    except TypeError as error:
        by_name = " (a dictionary names arguments; one that is an argument needs a problem file)"
        hint = by_name if isinstance(inputs, Mapping) else ""
        if signature.parameters:
            hint += f"; it takes {', '.join(signature.parameters)}"
        raise ProblemError(f"{_label(operator)} does not take these inputs: {error}{hint}") from None
    named = flattened(bound)
    return list(named.values()), list(named)


def _label(operator: Callable[..., Any]) -> str:
    """The function's name, a lambda's file, a module's class."""
    operator = getattr(operator, "func", operator) if isinstance(operator, functools.partial) else operator
    name = getattr(operator, "__name__", "") or _WORDS.sub("_", type(operator).__name__).lower()
    if name != "<lambda>":
        return str(name)
    file = Path(getattr(getattr(operator, "__code__", None), "co_filename", ""))
    return file.stem if file.suffix == ".py" else "function"


def _reference_text(code: str, tensors: Mapping[str, Any]) -> str:
    """FX's ``forward`` as a plain function of inputs, parameters and constants."""
    match = re.search(r"def forward\(self(?:, )?(.*?)\):\n(.*)", code, re.DOTALL)
    if match is None:
        raise ProblemError("the traced graph has no forward function; please report this operator")
    traced = [name.strip() for name in match.group(1).split(",") if name.strip()]
    names = [identifier(label) for label in tensors]
    unpack = [f"    {inner} = {outer}" for inner, outer in zip(traced, names, strict=False) if inner != outer]
    body = re.sub(r"self\.(_(?:tensor|param)_constant)", r"\1", match.group(2))
    body = _without_gradients(re.sub(r";  (\w+ = )+None", "", body).rstrip())
    return f"\n\ndef reference({', '.join(names)}):\n" + "\n".join([*unpack, body]) + "\n"


def _without_gradients(body: str) -> str:
    """The body with ``with torch.no_grad():`` around what was traced with gradients off.

    FX writes calls that switch them. Those would leave the caller's mode as it was when the operator was traced.
    """
    off, modes = False, []
    for line in body.splitlines():
        if switched := _GRADIENTS.search(line):
            off = switched[1] == "False"
        else:
            modes.append((off, line))
    lines = []
    for without, group in itertools.groupby(modes, key=itemgetter(0)):
        lines += ["    with torch.no_grad():"] if without else []
        lines += [f"    {line}" if without else line for _, line in group]
    return "\n".join(lines)
