"""One call as it was searched: whether another call is the same, and the kernel for it."""

import inspect
import operator as operators
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.utils._pytree import TreeSpec, tree_leaves, tree_unflatten

from ..hardware.dropin.functions import Packing
from ..hardware.sources.call_arguments import by_place_and_name, defaults_of, flattened, is_structure, signature_of
from ..hardware.sources.from_python import Traced
from ..hardware.sources.kept_settings import SIMPLE, Watch, is_as, kept, owned_by
from ..hardware.sources.module_state import is_held
from ..hardware.sources.source_lines import described, level_of_caller

FIRST_CALL = "operator: the first call, which shows how several results are packed"
"""What :attr:`SearchedCall.counts` calls it."""
_NONE = inspect.Parameter.empty
"""Default of an argument that has none."""
ERRORS_OF_INPUTS = (IndexError, RuntimeError)
"""What a kernel raises where the operator does, too, for values that nobody may give it."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_is_compiling, _is_tracing = torch.compiler.is_compiling, torch._C._is_tracing
_has_any_global_hook = torch.nn.modules.module._has_any_global_hook
_peek_transform, _has_autocast = torch._C._functorch.peek_interpreter_stack, torch._C._is_any_autocast_enabled
_function_modes, _dispatch_modes = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
_TENSORS = (torch.Tensor, torch.nn.Parameter)


class SearchedCall:
    """Decides call by call whether the kernel may stand in for the operator that was traced.

    Only where everything is as it was searched: shapes, types, devices and layouts of the inputs, numbers among them,
    the module's modes, attributes, parts and what they do. Sizes that were searched as dynamic may be any of their
    range at which the operator is known to be the traced one (:attr:`Traced.covered`). And only where nobody wants
    gradients, which the operator itself gives, or to see the calls of its parts. ``torch.jit.trace`` and
    ``torch.compile`` get the operator as well.
    """

    def __init__(self, traced: Traced, kernel: Callable[..., Any]) -> None:
        self.traced = traced
        self._kernel = kernel
        self._packing: Packing | None = getattr(kernel, "packing", None)
        """Of a finished file: the call that shows it how results are packed is computed by the operator's trace."""
        assert traced.operator is not None
        self._signature = signature_of(traced.operator)
        self._defaults = defaults_of(self._signature) if self._signature is not None else {}
        self._is_by_place = not by_place_and_name(traced.operator, traced.inputs)[1] and not any(
            map(is_structure, traced.inputs.values())
        )
        self._inputs = [[_described(value) for value in inputs.values()] for inputs in traced.calls]
        self._places = [at for at, value in enumerate(traced.inputs.values()) if isinstance(value, torch.Tensor)]
        order = {name: place for place, name in enumerate(traced.inputs)}
        self._dynamic = [
            (order[name], axis, number) for number, size in enumerate(traced.dynamic) for name, axis in size.places
        ]
        self._accepted_sizes: dict[tuple[int, ...], bool] = {}
        self._has_warned = False
        self.counts: Counter[str] = Counter()
        """Calls that the kernel computed, and those that the operator did, by why. Not those that torch traced."""
        self._parameters = [_described(value) for value in traced.parameters[: len(traced.names)]]
        self._forwards = [(kind, getattr(kind, "forward", None)) for kind in {kind for kind, _ in traced.settings}]
        self._accepted: WeakKeyDictionary[torch.nn.Module, _State] = WeakKeyDictionary()
        self._flat = _flat_kind(traced.structure)

    def tensors(
        self, module: torch.nn.Module | None, arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> list[Any] | None:
        """What :meth:`computed` takes for this call; None where the operator has to be called.

        It is asked before each call, so it is written for speed: 19 us for a module with three parts and buffers.

        Args:
            module: whose parameters are taken; None for a function.
            arguments: by position.
            named: by name.
        """
        if _is_compiling() or _is_tracing() or _peek_transform() is not None:
            return None
        if _has_autocast() or _function_modes() or _dispatch_modes():
            return self._left("autocast or a mode of torch")  # the file's reference is a trace of a call without them
        if module is None:
            return self.taken([], arguments, named)
        state = self._accepted.get(module)
        if state is None or state.is_changed():
            if reason := difference(module, self.traced):
                return self._left(f"another module: {reason}")
            state = self._accepted[module] = _State(module, self.traced)
        return self._left("hooks") if self._is_watched() else self.taken(state.held(), arguments, named)

    def taken(self, held: list[Any], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any] | None:
        """As :meth:`tensors`, of a module that has the parameters and buffers ``held`` and is else as searched."""
        values = self._values(arguments, named)
        if values is None:
            return self._left("other inputs")
        inputs = [_described(value) for value in values]
        if inputs not in self._inputs and not self._is_dynamic(inputs):
            return self._left(self._mismatch(inputs))
        if [_described(value) for value in held] != self._parameters:
            return self._left("other parameters")
        tensors = [values[at] for at in self._places] + held
        if torch.is_grad_enabled():
            for tensor in tensors:
                if tensor.requires_grad:
                    return self._left("gradients")
        return tensors

    def result(self, tensors: list[Any], operator: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """:meth:`computed`; where the kernel raises, what ``operator`` does: that says why in PyTorch's words.

        Where the operator can compute the call, the kernel's error is a warning: it may need a compiler.
        """
        is_shown_packing = self._packing is not None and not self._packing.is_known
        try:
            result = self.computed(tensors)
            self.counts[FIRST_CALL if is_shown_packing else "kernel"] += 1
            return result
        except ERRORS_OF_INPUTS as error:
            reason = f"{type(error).__name__}: {error}"
        self._left("errors of the kernel")
        result = operator(*arguments, **named)
        message = f"the operator computed a call because its kernel could not: {reason}"
        warnings.warn(message, RuntimeWarning, stacklevel=level_of_caller())
        return result

    def computed(self, tensors: list[Any]) -> Any:
        """The kernel's result in the operator's structure: a named tuple stays one."""
        result = self._kernel(*tensors, *self.traced.constants)
        if self.traced.structure is None or isinstance(result, torch.Tensor) or type(result) is self._flat:
            return result
        return tree_unflatten(tree_leaves(result), self.traced.structure)

    def _left(self, reason: str) -> list[Any] | None:
        """Count a call that is the operator's; there are no tensors for the kernel."""
        self.counts[f"operator: {reason}"] += 1
        return None

    def _is_dynamic(self, inputs: list[Any]) -> bool:
        """Whether inputs, as :func:`_described`, differ from those searched only in sizes for which the kernel is."""
        if not self._dynamic:
            return False
        searched, sizes = list(self._inputs[0]), [-1] * len(self.traced.dynamic)
        for place, axis, at in self._dynamic:
            shape = inputs[place][0]
            if not isinstance(shape, torch.Size) or len(shape) <= axis or sizes[at] not in (-1, shape[axis]):
                return False
            sizes[at] = size = shape[axis]
            own, *others = searched[place]
            searched[place] = ((*own[:axis], size, *own[axis + 1 :]), *others)
        if inputs != searched:
            return False
        key = tuple(sizes)
        accepted = self._accepted_sizes.get(key)
        if accepted is None:
            is_within = all(each.low <= size <= each.high for each, size in zip(self.traced.dynamic, key, strict=True))
            accepted = self._accepted_sizes[key] = is_within and key in self.traced.covered
        return accepted

    def _mismatch(self, inputs: list[Any]) -> str:
        """Why a call is not the one that was searched; the first one whose tensors are others is a warning."""
        is_alike = any(all(map(_is_alike, inputs, searched)) for searched in self._inputs)
        what, way_out = self._other_shapes(inputs) if is_alike else self._others(inputs)
        if what and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{described(self.traced.operator)} computes calls itself whose {what}: {way_out} (docs/commands.md). "
                "`calls` of the result counts them; this is said once",
                RuntimeWarning,
                stacklevel=level_of_caller(),
            )
        return "other shapes" if is_alike else "other inputs"

    def _other_shapes(self, inputs: list[Any]) -> tuple[str, str]:
        """What the kernel was not searched for, and what helps."""
        names, shapes = list(self.traced.inputs), [each[0] for each in inputs]
        shown = "; ".join(f"{names[at]} is {tuple(s)}" for at, s in enumerate(shapes) if isinstance(s, torch.Size))
        return f"shapes the kernel was not searched for ({shown})", self._way_out(inputs)

    def _others(self, inputs: list[Any]) -> tuple[str, str]:
        """What of the first tensor differs beside its shape, and what helps; nothing where another argument does."""
        kinds = ("dtype", "device", "layout")
        for name, given, searched in zip(self.traced.inputs, inputs, self._inputs[0], strict=True):
            if _is_alike(given, searched):
                continue
            if not (isinstance(given[0], torch.Size) and isinstance(searched[0], torch.Size)):
                break
            parts = zip(kinds, given[1:], searched[1:], strict=True)
            kind, mine, own = next(part for part in parts if part[1] != part[2])
            what = f"inputs have another {kind} than searched ({name}: {_layout(mine)}, searched {_layout(own)})"
            return what, "give them as they were searched, or search with several calls"
        return "", ""

    def _way_out(self, inputs: list[Any]) -> str:
        """How to search for calls of such shapes; where sizes were searched as dynamic, what is beyond them."""
        if not self._dynamic:
            return "search with `dynamic_shapes`, or with several calls"
        names = list(self.traced.inputs)
        for place, axis, at in self._dynamic:
            size, shape = self.traced.dynamic[at], inputs[place][0]
            if isinstance(shape, torch.Size) and len(shape) > axis and not size.low <= shape[axis] <= size.high:
                return (
                    f"dimension {axis} of {names[place]!r} is {shape[axis]}, and `{size.name}` was searched from "
                    f"{size.low} to {size.high}; search with a wider range"
                )
        ranges = ", ".join(f"`{size.name}` from {size.low} to {size.high}" for size in self.traced.dynamic)
        return (
            f"searched were {ranges}, each the same at all its places and where the operator does the same, and other "
            "dimensions as in `inputs`; add these to `dynamic_shapes`, or search with several calls"
        )

    def _is_watched(self) -> bool:
        """Whether somebody asked to see the calls of every module, or has replaced what one of its classes does."""
        for kind, forward in self._forwards:
            if getattr(kind, "forward", None) is not forward:
                return True
        return bool(_has_any_global_hook())

    def _values(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any] | None:
        """The arguments in the order in which they were traced; None if others are given."""
        if self._is_by_place and not named and len(arguments) == len(self.traced.inputs):
            return list(arguments)
        if self._signature is None:
            return None
        try:
            given = flattened(self._signature.bind(*arguments, **named))
        except TypeError:
            return None
        # What is left out is as if its default were given.
        if not all(
            is_as(given[name], kept(self._defaults.get(name, _NONE)))
            for name in given.keys() - self.traced.inputs.keys()
        ):
            return None
        values = [given.get(name, self._defaults.get(name, _NONE)) for name in self.traced.inputs]
        return None if any(value is _NONE for value in values) else values


class _State:
    """A module as it was when it last was like the one that was searched: a later call compares by identity."""

    def __init__(self, module: torch.nn.Module, traced: Traced) -> None:
        # Not the module itself: what holds this is dropped with it.
        parts = list(module.modules())
        self._classes = [(part, type(part)) for part in parts if part is not module]
        # The module's own hooks run around its forward; those of its parts would not be called.
        own_hooks = [vars(module)[hooks] for hooks in _HOOKS]
        self._watch = Watch(parts, own_hooks, traced.constants)
        self._holders = [_holder(module, name) for name in traced.names]
        taken = {(id(holder), key) for holder, key in self._holders}
        # None, and the second name of a parameter that has two.
        self._further = [
            (holder, key, value)
            for part in parts
            for holder in (part._parameters, part._buffers)
            for key, value in holder.items()
            if (id(holder), key) not in taken
        ]

    def is_changed(self) -> bool:
        """Whether anything but a parameter or buffer is another one than it was, or one has come or gone."""
        for part, kind in self._classes:
            if type(part) is not kind:
                return True
        for holder, key, value in self._further:
            if holder.get(key) is not value:
                return True
        return self._watch.is_changed()

    def held(self) -> list[Any]:
        """Parameters and buffers as they are now; None for what is not there."""
        return [holder.get(key) for holder, key in self._holders]


def _holder(module: torch.nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """The dictionary that has a parameter or buffer, and its key there; an empty one where nothing has it."""
    path, _, key = name.rpartition(".")
    try:
        part = module.get_submodule(path)
    except AttributeError:
        return {}, key
    return next((holder for holder in (part._parameters, part._buffers) if key in holder), {}), key


def _flat_kind(structure: Any) -> type | None:
    """``list`` or ``tuple`` where the operator returns one of tensors alone: what a kernel returns is one, too."""
    plain = structure is not None and structure.type in (list, tuple)
    return structure.type if plain and all(child.is_leaf() for child in structure.children()) else None


def held_by(module: torch.nn.Module, names: tuple[str, ...]) -> list[Any]:
    """Parameters and buffers by name; None for what is not there."""
    held = []
    for name in names:
        try:
            held.append(operators.attrgetter(name)(module))
        except AttributeError:
            held.append(None)
    return held


def difference(module: torch.nn.Module, traced: Traced) -> str:
    """What makes ``module`` another operator than the one that was traced, parameters aside; empty for nothing."""
    parts: list[Any] = list(module.modules())
    if len(parts) != len(traced.settings):
        return f"it has {len(parts)} parts, not {len(traced.settings)}"
    if names := {*traced.parts} ^ {name for name, _ in module.named_modules()}:
        return f"its part {min(names)!r} has another name or is not there"
    held = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
    if names := {*traced.names} ^ held:
        name = min(names)
        return f"its parameter {name!r} {'was none' if name in held else 'is none now'}, or was another's"
    owned = dict(owned_by(module))
    operator: Any = traced.operator
    if vars(operator) is vars(module):
        owned[id(operator)] = owned[id(module)]  # two objects of one content: see `shared`
    for part, (kind, attributes) in zip(parts, traced.settings, strict=True):
        now = vars(part)
        if part is not module and type(part) is not kind:
            return f"a part of it is a {type(part).__name__}, not a {kind.__name__}"
        if part is not module and any(now[hooks] for hooks in _HOOKS):
            return "a part of it has hooks"
        if part is not module and now.get("forward") is not attributes.get("forward"):
            return "a part of it has another forward"
        for key, value in attributes.items():
            if (
                (key, value) != ("training", None)
                and not is_held(now.get(key))
                and not is_as(now.get(key), value, owned)
            ):
                if key == "training":
                    mode, searched = ("training", "evaluation")[:: 1 if now.get(key) else -1]
                    which = "it" if part is module else "a part of it"
                    return f"{which} is in {mode} mode, and was searched in {searched} mode"
                return f"its attribute {key!r} is another one"
    return ""


def loaded(source: str, name: str) -> ModuleType:
    """A finished file, executed as a module of its own.

    Args:
        source: the file's text.
        name: of the session, for tracebacks.
    """
    module = ModuleType(f"kernelswarm_best_{name.replace('-', '_')}")
    exec(compile(source, f"<kernelswarm {name}>", "exec"), module.__dict__)
    return module


def _is_alike(value: Any, searched: Any) -> bool:
    """Whether two descriptions are the same but for a tensor's shape."""
    if value == searched:
        return True
    is_tensor = isinstance(value[0], torch.Size) and isinstance(searched[0], torch.Size)
    # Other strides alone are another layout.
    return is_tensor and value[0] != searched[0] and value[1:3] == searched[1:3] and type(value[3]) is type(searched[3])


def _layout(part: Any) -> str:
    return f"strides {part}" if isinstance(part, tuple) else str(part)


def _described(value: Any) -> Any:
    """What two arguments must have in common for the kernel to be the one that was searched.

    How the operator's results lie in memory follows from how its inputs do; the kernel's do not.
    """
    if type(value) in _TENSORS:
        dense = value.layout is torch.strided
        layout = value.layout if not dense else "contiguous" if value.is_contiguous() else value.stride()
        return value.shape, value.dtype, value.device, layout
    if type(value) is float:
        return float, repr(value)  # 0.0 and -0.0 are equal, and have other reciprocals
    return type(value), value if isinstance(value, (*SIMPLE, TreeSpec)) else id(value)
