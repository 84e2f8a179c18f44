"""Part of every finished file: which arguments of a constructor or a call go by position and which by name; where
weights are drawn; sizes of layers that take them from their first call."""

import contextlib
import inspect
import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Arguments = tuple[Sequence[Any], Mapping[str, Any]]
"""By position and by name."""


def positional_and_named(make: Callable[..., Any], returned: Any) -> tuple[list[Any], dict[str, Any]]:
    """What ``returned``, the result of a problem's ``get_init_inputs()``, gives to ``make``.

    A dictionary has all arguments by name. A list has them by position, but for a dictionary at its end that has
    others by name: in ``[[...], {...}]``, KernelBook's form, if ``make`` takes that; in ``[..., {...}]`` if all its
    keys are parameters of ``make``, or no parameter could take it by position.

    Raises:
        TypeError: ``returned`` is no list, tuple, dictionary or tensor; the message is a noun for it.
    """
    if isinstance(returned, dict):
        return [], returned
    if isinstance(returned, torch.Tensor):
        return [returned], {}
    if not isinstance(returned, list | tuple):
        raise TypeError(f"a {type(returned).__name__}")
    positional = list(returned)
    if (
        not positional
        or not isinstance(positional[-1], dict)
        or not all(isinstance(key, str) for key in positional[-1])
    ):
        return positional, {}
    *first, named = positional
    signature = inspect.signature(make)
    if len(first) == 1 and isinstance(first[0], list | tuple) and _binds(signature, first[0], named):
        return list(first[0]), named
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    by_position = [name for name, kind in kinds.items() if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    has_place = len(positional) <= len(by_position) and _binds(signature, positional, {})
    are_parameters = bool(named) and all(kinds.get(key) in _BY_NAME for key in named)
    if (are_parameters or not has_place) and _binds(signature, first, named):
        return first, named
    return positional, {}


def by_position(call: Callable[..., Any], drawn: Any) -> list[Any]:
    """What ``drawn``, the result of a problem's ``get_inputs()`` or ``inputs(...)``, gives to ``call``, by position.

    A list, a tuple or a tensor is so already. A dictionary has arguments by name; where it leaves one out between
    those that it has, that one's default stands.

    Raises:
        TypeError: ``drawn`` is something else, or ``call`` cannot take it so; the message is a noun for it.
    """
    if isinstance(drawn, torch.Tensor):
        return [drawn]
    if isinstance(drawn, list | tuple):
        return list(drawn)
    if not isinstance(drawn, Mapping):
        raise TypeError(f"a {type(drawn).__name__}")
    signature = inspect.signature(call)
    try:
        signature.bind(**drawn)
    except TypeError as error:
        raise TypeError(f"a dictionary that cannot be passed by name ({error})") from None
    names = [
        name for name, each in signature.parameters.items() if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    if beyond := [str(name) for name in drawn if name not in names]:
        listed = ", ".join(beyond)
        raise TypeError(f"a dictionary with {listed}, which is taken by name alone: leave the `*` before it out")
    last = max((names.index(name) for name in drawn), default=-1)
    return [drawn[name] if name in drawn else signature.parameters[name].default for name in names[: last + 1]]


def made_on(
    device: torch.device, make: Callable[..., Any], arguments: Arguments, seed: Callable[[], None]
) -> tuple[Any, torch.device]:
    """A module that ``make`` constructs of ``arguments`` after ``seed``, and where: on ``device``, or in main memory.

    A processor draws in one thread, 6 s for 4 GB. Made in main memory are those whose constructors fail elsewhere or
    take tensors, and those that keep tensors which are no parameters or buffers: ``module.to`` leaves them there.
    """
    positional, named = arguments
    if device.type != _HOST.type and not _has_tensors(arguments):
        seed()
        with contextlib.suppress(Exception), device:
            module = make(*positional, **named)
            registered = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
            if not _has_tensors([_own(part) for part in module.modules()], registered):
                return module, device
    seed()
    return make(*positional, **named), _HOST


class _Noting(TorchDispatchMode):  # type: ignore[misc]
    """Notes the tensors that are made meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[weakref.ref[Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.made += [weakref.ref(leaf) for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        return result


def without_data(make: Callable[..., Any]) -> Callable[..., Any]:
    """``make`` for a module that is given somebody else's tensors: its own have sizes and no numbers.

    It returns the module, and a function that says whether the module has nothing but tensors ``there``, by the name
    of the device in a tensor, once it was given them: none of those that were made is left, wherever it was kept.
    """

    def made(*positional: Any, **named: Any) -> tuple[Any, Callable[[str], bool]]:
        noting = _Noting()
        with torch.device("meta"), noting:
            module = make(*positional, **named)

        def has_others_alone(there: str) -> bool:
            registered = [*module.parameters(), *module.buffers()]
            kept = [leaf for leaf in tree_leaves([_own(p) for p in module.modules()]) if isinstance(leaf, torch.Tensor)]
            is_bare = any(tensor.is_meta for tensor in kept) or any(tensor() is not None for tensor in noting.made)
            return not is_bare and all(getattr(tensor, there) for tensor in registered)

        return module, has_others_alone

    return made


def is_lazy(module: Any) -> bool:
    """Whether it has layers that wait for their first call to take their sizes."""
    return any(isinstance(part, LazyModuleMixin) for part in module.modules())


def call_once(module: Any, draw: Callable[[], Sequence[Any]]) -> None:
    """Have lazy layers take their sizes from a call on what ``draw`` returns; as in evaluation, it changes no state."""
    if not is_lazy(module):
        return
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    with torch.no_grad():
        module(*draw())
    for part, mode in modes:
        part.training = mode


_HOST = torch.device("cpu")
_TORCHS_OWN = frozenset(vars(torch.nn.Module()))
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _own(part: torch.nn.Module) -> list[Any]:
    """What its class keeps in it beside what torch does."""
    return [value for name, value in vars(part).items() if name not in _TORCHS_OWN]


def _has_tensors(value: Any, beside: Container[int] = ()) -> bool:
    """Whether it holds a tensor that is none of ``beside``, by identity."""
    return any(isinstance(leaf, torch.Tensor) and id(leaf) not in beside for leaf in tree_leaves(value))


def _binds(signature: inspect.Signature, positional: Any, named: dict[str, Any]) -> bool:
    try:
        signature.bind(*positional, **named)
    except TypeError:
        return False
    return True
