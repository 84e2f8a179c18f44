"""Traces a reference with PyTorch's own tracers: what it calls, what it returns, what it leaves behind."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, partialmethod
from typing import Any
from unittest import mock

from ...schemas import ProblemError
from .decompositions import decompositions
from .spelled import spelled
from .state import (
    attributes_kept,
    carried,
    check_reads,
    is_reassigned,
    state_of,
    surely_writes,
    tensor_names,
    traceable_copy,
)
from .structure import flattened


@dataclass
class Traced:
    """A traced module of PyTorch's, and what its placeholders and results are."""

    module: Any
    target: Any
    """What was traced."""
    inputs: list[Any]
    labels: list[str]
    """Names of the inputs."""
    positions: list[int]
    """Which inputs are placeholders, in order."""
    state: list[str] = field(default_factory=list)
    """Parameters and buffers that are placeholders behind them."""
    structure: str = ""
    """How the results are put together (:func:`flattened`)."""
    results: int = 0
    """How many of the module's results are the reference's; behind them the values after the call of ``state``, and of
    the inputs that are tensors."""
    same: dict[int, int] = field(default_factory=dict)
    """Results that are nothing but a value behind them: both places."""
    names: dict[int, list[str]] = field(default_factory=dict)
    """Names of parameters and buffers by ``id``."""


Call = Callable[[Any, list[Any]], Any]
"""What is done with the reference and its inputs."""


def plain_call(target: Any, inputs: list[Any]) -> Any:
    """The forward pass."""
    return target(*inputs)


class _Reference:
    """The reference as a flat function of what is traced."""

    def __init__(
        self,
        target: Any,
        inputs: list[Any],
        labels: list[str],
        positions: list[int],
        call: Call = plain_call,
        attributes: Sequence[str] = (),
    ) -> None:
        """``attributes`` of the target are tensors that calls leave to the next one, as they do buffers."""
        self.target = traceable_copy(target, attributes)
        self._call = call
        self.inputs = inputs
        self.positions = positions
        self.before = state_of(self.target)
        # What closes over a submodule, as `lambda x: m(x)` in a constructor does, has the original's tensors in a copy.
        names = tensor_names(target) | tensor_names(self.target)
        self.traced = Traced(None, self.target, inputs, labels, positions, names=names)

    def call(self, *values: Any) -> list[Any]:
        full = list(self.inputs)
        for position, value in zip(self.positions, values, strict=True):
            full[position] = value
        leaves, self.traced.structure = flattened(self._call(self.target, full))
        self.traced.results = len(leaves)
        return leaves

    def call_with_state(self, *values: Any) -> list[Any]:
        """The results, then what every parameter and buffer holds after the call, then every tensor among the inputs.

        The last ``len(before)`` of ``values`` are the parameters and buffers.
        """
        from torch.nn.utils.stateless import _reparametrize_module

        split = len(self.positions)
        state = dict(zip(self.before, values[split:], strict=True))
        with _swapped(_reparametrize_module, self.target, state):
            leaves = self.call(*values[:split])
        after = [*state.values(), *(value for value in values[:split] if _is_tensor(value))]
        places = {id(value): len(leaves) + place for place, value in enumerate(after)}
        self.traced.same = {n: places[id(leaf)] for n, leaf in enumerate(leaves) if id(leaf) in places}
        return [*leaves, *after]

    @property
    def is_reassigned(self) -> bool:
        return is_reassigned(self.target, self.before)


@contextmanager
def _swapped(reparametrize: Callable[..., Any], target: Any, state: dict[str, Any]) -> Iterator[None]:
    if not state:
        yield
        return
    with reparametrize(target, state, tie_weights=True):
        yield


def trace_calls(target: Any, inputs: list[Any], labels: list[str], call: Call, *, types: bool) -> Traced:
    """Trace by ``make_fx``, with the state as arguments where the reference writes something.

    What surely does is traced that way at once: tracing a deep network takes seconds each time.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    positions = [i for i, value in enumerate(inputs) if _is_tensor(value) or type(value) is int]
    reference = _Reference(target, inputs, labels, positions, call)
    with torch.no_grad(), _settings(), spelled(reference.target, types):
        if surely_writes(target):
            # What goes wrong here goes wrong below as well, or not, and is explained there.
            with suppress(Exception), attributes_kept(reference.target):
                module = _trace_state(reference)
                if _changes_state(module, reference.traced) and not any(map(_is_mutation, module.graph.nodes)):
                    return _checked(reference, module)
            reference = _Reference(target, inputs, labels, positions, call)
        with attributes_kept(reference.target) as replaced:
            module = make_fx(
                reference.call,
                tracing_mode="symbolic",
                decomposition_table=decompositions(),
                _allow_non_fake_inputs=True,
            )(*[_detached(inputs[i]) for i in positions])
        attributes = carried(reference.target, replaced, _read_tensors(module), _written_tensors(module))
        if any(map(_is_mutation, module.graph.nodes)) or reference.is_reassigned or attributes:
            reference = _Reference(target, inputs, labels, positions, call, attributes)
            module = _trace_state(reference)
    return _checked(reference, module)


def _checked(reference: _Reference, module: Any) -> Traced:
    if _writes_unseen(module):
        raise ProblemError("a composite operator of PyTorch writes into a tensor that is read under another name")
    reference.traced.module = module
    return reference.traced


def _changes_state(module: Any, traced: Traced) -> bool:
    """Whether one of the values behind the results is another one than what was given."""
    (results,) = next(node for node in module.graph.nodes if node.op == "output").args
    return any(value.op != "placeholder" for value in results[traced.results :])


@contextmanager
def _settings() -> Iterator[None]:
    """How torch's tracers work here.

    Every size is a symbol of its own. The number in a tensor is no symbol that its example decides: ``int(position)``
    would be the example's. Where sizes are symbols, torch's cache of what operators give costs more than they do: 6.6
    of 17.5 CPU seconds of a scan over 64 steps.
    """
    from torch._dynamo import config
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental import _config

    made = partialmethod(FakeTensorMode.__init__, export=True)
    sizes, cache = _config.patch(use_duck_shape=False), config.patch(fake_tensor_cache_enabled=False)
    with sizes, cache, mock.patch.object(FakeTensorMode, "__init__", made):
        yield


def _trace_state(reference: _Reference) -> Any:
    """Everything that may be written is an argument, whose value after the call is a result."""
    import torch
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    arguments = [_symbolic(mode, place, reference.inputs[i]) for place, i in enumerate(reference.positions)]
    state = [mode.from_tensor(value.detach(), static_shapes=True) for value in reference.before.values()]
    reference.traced.state = list(reference.before)
    module: Any = reference.call_with_state
    # What is differentiated cannot be functionalised while it is; the operators that it calls can.
    for change in (_unchanged, partial(torch.func.functionalize, remove="mutations")):
        with mode, enable_python_dispatcher():
            maker = make_fx(change(module), decomposition_table=decompositions(), _allow_non_fake_inputs=True)
            module = maker(*arguments, *state)
    _settle_copies(module.graph)
    return module


def _unchanged(function: Any) -> Any:
    return function


def _settle_copies(graph: Any) -> None:
    """What is copied into an argument is what everything behind it reads: functionalisation leaves such copies at the
    end, and decompositions wherever they write."""
    values: dict[Any, Any] = {}
    for node in list(graph.nodes):
        place = node.args[0] if str(node.target) == "aten.copy_.default" else None
        node.args, node.kwargs = _mapped(node.args, values), _mapped(node.kwargs, values)
        if place is not None and place.op == "placeholder" and _is_like(place, node.args[1]):
            values[node] = values[place] = node.args[1]
    for node in reversed(graph.nodes):
        if node in values and node.op != "placeholder":
            graph.erase_node(node)


def _is_like(node: Any, other: Any) -> bool:
    first, second = node.meta["val"], other.meta["val"]
    return bool(first.shape == second.shape and first.dtype == second.dtype)


def _mapped(arguments: Any, values: dict[Any, Any]) -> Any:
    from torch.fx.node import map_arg

    return map_arg(arguments, lambda node: values.get(node, node))


def _symbolic(mode: Any, place: int, value: Any) -> Any:
    """``value`` with symbols for its sizes, or for itself, as ``make_fx`` makes them."""
    from torch._dynamo.source import ConstantSource

    source = ConstantSource(f"input{place}")
    if _is_tensor(value):
        return mode.from_tensor(value.detach(), source=source)
    symbol = mode.shape_env.create_symbol(value, source, positive=None)
    return mode.shape_env.create_symintnode(symbol, hint=value, source=source)


def trace_export(target: Any, inputs: list[Any], labels: list[str], call: Call) -> Traced:
    """Trace by ``torch.export``: integers are numbers here."""
    import torch

    positions = [i for i, value in enumerate(inputs) if _is_tensor(value)]
    reference = _Reference(target, inputs, labels, list(range(len(inputs))), call)
    auto = torch.export.Dim.AUTO
    dynamic = tuple(dict.fromkeys(range(v.ndim), auto) if _is_tensor(v) else None for v in inputs)
    with attributes_kept(reference.target) as replaced, spelled(reference.target, types=False):
        exported = torch.export.export(_wrapped(reference), tuple(inputs), dynamic_shapes={"args": dynamic})
    check_reads(replaced, list(replaced.values()))
    reference.traced.module = exported.run_decompositions(decompositions()).module()
    reference.traced.positions = positions
    return reference.traced


def _wrapped(reference: _Reference) -> Any:
    import torch

    class Wrapper(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            if isinstance(reference.target, torch.nn.Module):
                self.target = reference.target

        def forward(self, *args: Any) -> Any:
            return reference.call(*args)

    return Wrapper().train(getattr(reference.target, "training", True))


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def is_floating(value: Any) -> bool:
    """Whether it is a tensor that has a gradient."""
    return _is_tensor(value) and bool(value.is_floating_point())


def _detached(value: Any) -> Any:
    return value.detach() if _is_tensor(value) else value


def _is_mutation(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    return schema is not None and schema.is_mutable


def _writes_unseen(module: Any) -> bool:
    """Whether something is written in place that is not read from the write's own result alone."""
    writes = filter(_is_mutation, module.graph.nodes)
    return any(not node.users or len(node.args[0].users) > 1 for node in writes)


def _read_tensors(module: Any) -> list[Any]:
    """Tensors that the reference brought along."""
    return [_attribute(module, node.target) for node in module.graph.nodes if node.op == "get_attr"]


def _written_tensors(module: Any) -> list[Any]:
    """Tensors that the reference brought along, and writes in place."""
    owners = [_owner(node) for node in module.graph.nodes if _is_mutation(node)]
    return [_attribute(module, node.target) for node in owners if node is not None and node.op == "get_attr"]


def _owner(node: Any) -> Any:
    """The node whose memory a write reaches, through views."""
    while node is not None and node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        is_view = schema is not None and schema.arguments and schema.arguments[0].alias_info is not None
        node = node.args[0] if is_view and node.args else None
    return node


def _attribute(module: Any, path: Sequence[str] | str) -> Any:
    value = module
    for part in str(path).split("."):
        value = getattr(value, part)
    return value
