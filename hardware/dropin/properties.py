"""What a user does with a reference and must be able to do with its drop-in; each a function of either of the two.

A property's function does it with one side and returns what came of it; the contract compares. Where the reference
raises, the property says nothing.
"""

import copy
import inspect
import io
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.utils import _pytree

from .comparing import IN_FP32, mapped, rounding
from .conditions import leaves
from .gradient_properties import accumulated, backward, first, gradients, graph, mixed, twice
from .selfcheck import states_of
from .sides import NotApplicable, Side, is_floating

LARGE = 1 << 28
"""Elements of inputs of which a device holds few copies; those of KernelBench go up to 4e9."""


def module_of(side: Side) -> Any:
    """The module.

    Raises:
        NotApplicable: it is a function.
    """
    if not side.is_module:
        raise NotApplicable("it is a function")
    return side.call


def outputs(side: Side) -> Any:
    """Several calls; results are packed alike."""
    with torch.no_grad():
        results = [side.call(*side.again()) for _ in range(3)]
    return [*results, str(_pytree.tree_structure(results[-1]))]


def state(side: Side) -> Any:
    """What is kept after calls with and without gradients, and what was written to the inputs."""
    inputs = side.again()
    with torch.no_grad():
        side.call(*inputs)
    side.call(*side.again())
    with torch.no_grad():
        side.call(*side.again())
    return [inputs, kept(side.call)]


def kept(call: Any) -> Any:
    """Parameters, buffers and numbers of a module."""
    return _raised([(name, value) for name, value, _ in states_of(call, call)])


def _raised(states: list[tuple[str, Any]]) -> list[Any]:
    """Values; what is nothing but rounding is raised by what its errors are relative to."""
    return [v + least if least else v for (_, v), least in zip(states, rounding(states, IN_FP32), strict=True)]


def state_dict(side: Side) -> Any:
    """Keys, kinds and order; strict loading there and back."""
    module = module_of(side)
    with torch.no_grad():
        side.call(*side.again())
    kinds = [[name, type(parameter).__name__, parameter.requires_grad] for name, parameter in module.named_parameters()]
    buffers = [[name, type(buffer).__name__] for name, buffer in module.named_buffers()]
    values = module.state_dict()
    report = module.load_state_dict({key: value * 1 for key, value in values.items()}, strict=True)
    missing = module.load_state_dict({}, strict=False).missing_keys
    return [kinds, buffers, list(values), _raised([*values.items()]), str(report), missing]


def loaded(side: Side) -> Any:
    """Weights that change in place after a call are used by the next one."""
    module = module_of(side)
    with torch.no_grad():
        side.call(*side.again())
        for parameter in module.parameters():
            parameter.mul_(0.5)
        first = side.call(*side.again())
        values = {key: value * 0.5 if is_floating(value) else value for key, value in module.state_dict().items()}
        module.load_state_dict(values)
        return [first, side.call(*side.again())]


def to(dtype: torch.dtype) -> Callable[[Side], Any]:
    """In another type, and back."""

    def done(side: Side) -> Any:
        with torch.no_grad():
            side.call(*side.again())
            if side.is_module:
                side.call.to(dtype)
            lower = side.call(*side.changed(lambda leaf: leaf.to(dtype)))
            if side.is_module:
                side.call.to(next((leaf.dtype for leaf in leaves(side.inputs) if is_floating(leaf)), torch.float32))
            return [lower, side.call(*side.again())]

    return done


def modes(side: Side) -> Any:
    """``eval``, ``train``, and one part in another mode than the rest."""
    module, results = module_of(side), []
    with torch.no_grad():
        for part, mode in ((module, False), (module, True), (list(module.modules())[-1], False)):
            part.train(mode)
            results.append(side.call(*side.again()))
    return [results, [submodule.training for submodule in module.modules()]]


def settings(side: Side) -> Any:
    """Numbers that the user changes after construction, and a part that is replaced."""
    module, results = module_of(side), []
    with torch.no_grad():
        side.call(*side.again())
        for part in module.modules():
            for key in ("eps", "negative_slope", "momentum"):
                if isinstance(getattr(part, key, None), float):
                    setattr(part, key, 0.25)
                    results.append(side.call(*side.again()))
        for name, part in list(module.named_children())[-1:]:
            setattr(module, name, torch.nn.Identity() if not list(part.parameters()) else copy.deepcopy(part))
            results.append(side.call(*side.again()))
    return results


def deepcopied(side: Side) -> Any:
    """A copy computes the same and shares nothing; it follows its own weights."""
    with torch.no_grad():
        side.call(*side.again())
        duplicate = copy.deepcopy(side.call)
        for parameter in duplicate.parameters() if side.is_module else ():
            parameter.mul_(0.5)
        return [duplicate(*side.again()), side.call(*side.again()), kept(duplicate)]


def pickled(side: Side) -> Any:
    """``torch.save`` of the whole, loaded where it was not imported."""
    with torch.no_grad():
        side.call(*side.again())
        stream = io.BytesIO()
        torch.save(side.call, stream)
        unpickled = side.reimported(stream.getvalue())
        return [unpickled(*side.again()), kept(unpickled)]


def compiled(side: Side) -> Any:
    """``torch.compile`` without a break."""
    torch._dynamo.reset()
    call = torch.compile(side.call, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        return [call(*side.again()), call(*side.again())]


def exported(side: Side) -> Any:
    """``torch.export``."""
    module = side.call
    if not side.is_module:
        module = _Holder(side.call)
    with torch.no_grad():
        return torch.export.export(module, tuple(side.again())).module()(*side.again())


class _Holder(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, call: Any) -> None:
        super().__init__()
        self._call = call

    def forward(self, *inputs: Any) -> Any:
        return self._call(*inputs)


def traced(side: Side) -> Any:
    """``torch.jit.trace``."""
    with torch.no_grad():
        return torch.jit.trace(side.call, tuple(side.again()), check_trace=False)(*side.again())


def autocast(side: Side) -> Any:
    """Under autocast."""
    device = next((leaf.device.type for leaf in leaves(side.inputs) if isinstance(leaf, torch.Tensor)), "cpu")
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        return side.call(*side.again())


def hooks(side: Side) -> Any:
    """Forward hooks, before and behind, on the whole and on its parts; backward hooks."""
    module, calls = module_of(side), []
    inputs, sources = side.followed()
    module.register_forward_pre_hook(lambda owner, given: tuple(mapped(v, lambda leaf: leaf * 1) for v in given))
    module.register_forward_hook(lambda owner, given, result: mapped(result, lambda leaf: leaf * 2))
    with torch.no_grad():
        results = [side.call(*side.again())]
    for part in list(module.children())[:1]:
        part.register_forward_hook(lambda owner, given, result: mapped(result, lambda leaf: leaf * 0.5))
        with torch.no_grad():
            results.append(side.call(*side.again()))
    module.register_full_backward_hook(lambda owner, before, behind: calls.append(len(behind)))
    backward(side.call(*inputs))
    return [results, calls, gradients(sources)]


def threads(side: Side) -> Any:
    """Several threads at once; of large inputs memory has no more than two sets of their own."""
    if side.has_state:
        raise NotApplicable("its calls depend on their order")
    results: list[Any] = [None] * (2 if side.size > LARGE else 4)
    errors: list[Exception] = []
    barrier = threading.Barrier(len(results))

    def call(index: int) -> None:
        try:
            inputs = side.changed(lambda leaf: leaf * (1 + index / 4))
            barrier.wait()
            with torch.no_grad():
                for _ in range(3):
                    results[index] = side.call(*inputs)
        except Exception as error:  # noqa: BLE001 - raised where somebody catches it
            errors.append(error)
            barrier.abort()  # or the others wait for this one

    started = [threading.Thread(target=call, args=(index,)) for index in range(len(results))]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    try:
        if errors:
            raise errors[0]
        return results
    finally:
        errors.clear()  # in a circle with the threads' frames, they would keep the inputs until garbage is collected


def empty(side: Side) -> Any:
    """No rows."""
    with torch.no_grad():
        return side.call(*side.first_rows(0))


def strided(side: Side) -> Any:
    """Tensors that are not contiguous, and views that negate."""

    def spread(leaf: torch.Tensor) -> torch.Tensor:
        return leaf.transpose(0, -1).contiguous().transpose(0, -1) if leaf.ndim > 1 else leaf.repeat_interleave(2)[::2]

    with torch.no_grad():
        results = [side.call(*[mapped(value, spread) for value in side.again()])]
        return [*results, side.call(*side.changed(lambda leaf: torch._neg_view(leaf.clone())))]


def inference(side: Side) -> Any:
    """In inference mode, and after it."""
    with torch.inference_mode():
        results = [leaf.clone() for leaf in leaves(side.call(*side.again())) if isinstance(leaf, torch.Tensor)]
        is_inference = [
            leaf.is_inference() for leaf in leaves(side.call(*side.again())) if isinstance(leaf, torch.Tensor)
        ]
    return [results, is_inference, first(side)]


def mapped_over(side: Side) -> Any:
    """``torch.vmap``."""
    stacked = [mapped(value, lambda leaf: torch.stack([leaf, leaf * 2])) for value in side.again()]
    dims = tuple(_pytree.tree_map(lambda leaf: 0 if isinstance(leaf, torch.Tensor) else None, stacked))
    with torch.no_grad():
        return torch.vmap(side.call, in_dims=dims)(*stacked)


def functional(side: Side) -> Any:
    """``torch.func.functional_call`` with other weights."""
    module = module_of(side)
    with torch.no_grad():
        side.call(*side.again())
        weights = {name: parameter * 0.5 for name, parameter in module.named_parameters()}
        return [torch.func.functional_call(module, weights, tuple(side.again())), side.call(*side.again())]


def forward_mode(side: Side) -> Any:
    """Forward-mode derivatives."""
    with forward_ad.dual_level():
        result = side.call(*side.changed(lambda leaf: forward_ad.make_dual(leaf, torch.ones_like(leaf))))
        return [list(forward_ad.unpack_dual(leaf)) for leaf in leaves(result) if is_floating(leaf)]


def keywords(side: Side) -> Any:
    """Arguments by name."""
    function = side.call.forward if side.is_module else side.call
    names = list(inspect.signature(function).parameters)
    named = dict(zip(names, side.again(), strict=False))
    with torch.no_grad():
        return [side.call(**named), names]


def random_numbers(side: Side) -> Any:
    """Nobody's random numbers move."""
    torch.manual_seed(7)
    with torch.no_grad():
        side.call(*side.again())
        side.call(*side.again())
    return torch.rand(3)


def graphed(side: Side) -> Any:
    """Replayed as a CUDA graph, on other numbers than it was recorded on."""
    inputs = side.again()
    if not any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in leaves(inputs)):
        raise NotApplicable("there is no CUDA device")
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                side.call(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            result = side.call(*inputs)
        for leaf, replacement in zip(leaves(inputs), leaves(side.changed(lambda leaf: leaf * 0.5)), strict=True):
            if isinstance(leaf, torch.Tensor):
                leaf.copy_(replacement)
        recorded.replay()
        torch.cuda.synchronize()
    return [output.clone() for output in leaves(result)]


def elsewhere(side: Side) -> Any:
    """In main memory, where the kernel is for a device."""
    if not any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in leaves(side.inputs)):
        raise NotApplicable("there is no other device")
    if side.is_module:
        side.call.cpu()
    # A processor takes minutes for what fills a device.
    inputs = side.first_rows(1) if side.size > LARGE else side.again()
    with torch.no_grad():
        result = side.call(*[mapped(value, torch.Tensor.cpu) for value in inputs])
    devices = [leaf.device.type for leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
    # Back to the device: comparing large results takes seconds in main memory.
    return [devices, mapped(result, torch.Tensor.cuda)]


PROPERTIES: dict[str, Callable[[Side], Any]] = {
    "outputs": outputs,
    "state": state,
    "gradients": first,
    "accumulated gradients": accumulated,
    "mixed gradients": mixed,
    "gradients of gradients": twice,
    "graph": graph,
    "state_dict": state_dict,
    "changed weights": loaded,
    "to(float64)": to(torch.float64),
    "half": to(torch.float16),
    "bfloat16": to(torch.bfloat16),
    "train and eval": modes,
    "changed settings": settings,
    "deepcopy": deepcopied,
    "pickle": pickled,
    "torch.compile": compiled,
    "torch.export": exported,
    "torch.jit.trace": traced,
    "autocast": autocast,
    "hooks": hooks,
    "threads": threads,
    "empty inputs": empty,
    "non-contiguous inputs": strided,
    "inference_mode": inference,
    "vmap": mapped_over,
    "functional_call": functional,
    "forward mode": forward_mode,
    "keywords": keywords,
    "random numbers": random_numbers,
    "CUDA graphs": graphed,
    "other devices": elsewhere,
}
"""By name, those about numbers, state and gradients first."""

ESSENTIAL = ("outputs", "state", "gradients", "accumulated gradients", "mixed gradients", "graph")
"""A file without one of these is no win."""
