"""The gradients of a call as users take them: of one call, after another one, accumulated, mixed with other operations.

Reference and candidate run the same steps; the reference's, in float64, are what is right.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ..calls import backward
from ..calls.answering import Refused, attempt
from ..calls.oracle import in_float64
from ..calls.state import in_precision
from ..inputs.sizes import DIFFERENTIATED_BYTES
from ..tensors import values
from ..tensors.bounds import read_tolerance
from ..tensors.compare import Target
from ..tensors.tensor_placement import to_device
from .corners import Answers, Sides, TooManyCorners
from .other_kernels import run_in_tf32
from .problem import ReferenceProblem
from .targets import FEW_SHAKES, epsilon_of, far_share
from .validity import InvalidVariant

Call = Callable[..., Any]
_Drawn = tuple[list[Any], list[Target], list[str], list[str], Sides | None]

DRAWS = 3
"""Of inputs, at most. The gradient of a ReLU jumps where a number lies beside zero, that of a maximum where one lies
beside another: an honest kernel falls on the other side of one in thousands of such inputs. On most draws none does."""
LOOKED_AT_BYTES = 1 << 20
"""Of inputs and parameters, where sides of corners cannot be told apart (:mod:`.corners`): of larger ones one draw is
taken, and nobody looks for what jumps. Of millions of numbers some always do, and with them every weight before them; a
ResNet block took 67 s instead of 22."""
PASSES = 8
"""How many calls taking the gradients costs, about."""
_MIXED = 2.0
"""What the operation before a mixed call multiplies by: a power of two, which rounds nothing."""
_STEPS = (
    ("{}", True),
    ("{} where another call came before its backward pass", False),
    ("{} accumulated over calls", True),
    ("{} where the call is mixed with other operations", True),
)
"""What each step shows, and whether it shows gradients of parameters, too."""

_backward = torch.autograd.backward
_enable_grad = torch.enable_grad
_detach = torch._C.TensorBase.detach
_zeros_like = torch.zeros_like


class NoGraph(Exception):
    """No output of a call has a graph: nothing can be differentiated."""


def labels(inputs: Sequence[str], parameters: Sequence[str]) -> tuple[str, ...]:
    """What each number of :func:`followed` is, in words."""
    descriptions: list[str] = []
    for text, with_parameters in _STEPS:
        names = [*inputs, *parameters] if with_parameters else list(inputs)
        descriptions += [text.format(f"the gradient of {name}") for name in names]
    return tuple(descriptions)


def followed(forward: Call, parameters: Mapping[str, torch.Tensor]) -> Call:
    """A function of the inputs and the cotangents (last), which returns gradients in the order of :func:`labels`.

    Raises:
        NoGraph: (the function) no output has a graph.
    """
    weights = list(parameters.values())

    def call(*arguments: Any) -> list[torch.Tensor]:
        *inputs, cotangents = arguments
        with _enable_grad(), _require_gradients(weights):
            (tracked, sources), (changed, changed_sources) = _taken(inputs), _taken(inputs, _changed)
            ends, later = forward(*tracked), forward(*changed)
            _differentiate(ends, cotangents)
            gradients = _gradients([*sources, *weights])
            _differentiate(later, cotangents)
            gradients += _gradients(changed_sources)
            _differentiate(forward(*tracked), cotangents)
            gradients += _gradients([*sources, *weights])
            _forget(weights)
            fresh, sources = _taken(inputs)
            mixed = values.mapped(fresh, lambda leaf: leaf * _MIXED if _is_floating(leaf) else leaf)
            rest = sum((leaf.square().sum() for leaf in values.leaves(mixed) if _is_floating(leaf)), torch.zeros(()))
            _differentiate(forward(*mixed), cotangents, rest)
            return gradients + _gradients([*sources, *weights])

    return call


def _changed(tensor: torch.Tensor) -> torch.Tensor:
    """Every third number halved: not scaled as a whole, which many gradients do not see, and nothing is rounded."""
    factors = torch.ones(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    factors[::3] = 0.5
    return tensor * factors.reshape(tensor.shape)


def _taken(inputs: list[Any], change: Call = torch.clone) -> tuple[list[Any], list[torch.Tensor]]:
    """Inputs whose floating tensors are leaves of their own, and these; changed, for another call."""
    sources: list[torch.Tensor] = []

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        if not _is_floating(tensor):
            return tensor
        sources.append(change(_detach(tensor)).requires_grad_())
        return sources[-1]

    return values.mapped(inputs, leaf), sources


def _differentiate(outputs: Any, cotangents: Sequence[torch.Tensor], more: torch.Tensor | None = None) -> None:
    floating = [leaf for leaf in values.leaves(outputs) if _is_floating(leaf)]
    pairs = [(leaf, weight) for leaf, weight in zip(floating, cotangents, strict=True) if leaf.requires_grad]
    # What it passes on has the graph of the input, and says nothing of what it computes.
    if not pairs or (len(pairs) < len(floating) and all(_is_passed_on(leaf) for leaf, _ in pairs)):
        raise NoGraph("no output has a graph")
    ends, weights = (list(part) for part in zip(*pairs, strict=True))
    if more is not None and more.requires_grad:
        ends, weights = [*ends, more], [*weights, None]
    _backward(ends, weights)


def _is_passed_on(output: torch.Tensor) -> bool:
    """Whether it is an input or a weight, or a view of one."""
    return output.is_leaf or (output._is_view() and output._base is not None and output._base.is_leaf)


def _gradients(leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [_zeros_like(leaf) if leaf.grad is None else leaf.grad.clone() for leaf in leaves]


def _forget(leaves: Sequence[torch.Tensor]) -> None:
    for leaf in leaves:
        leaf.grad = None


@contextlib.contextmanager
def _require_gradients(weights: Sequence[torch.Tensor]) -> Iterator[None]:
    before = [weight.requires_grad for weight in weights]
    for weight in weights:
        weight.requires_grad_()
    _forget(weights)
    try:
        yield
    finally:
        _forget(weights)
        for weight, required in zip(weights, before, strict=True):
            weight.requires_grad_(required)


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def parameters_of(model: Any) -> dict[str, torch.Tensor]:
    """What a module's gradients go to."""
    if not isinstance(model, torch.nn.Module):
        return {}
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and parameter.is_floating_point()
    }


def gradient_case(reference: ReferenceProblem, shape: str, seed: int) -> _Drawn:
    """Inputs and cotangents, the right gradients, names of the parameters and what each gradient is; and where some
    numbers lie beside corners, what is right on their other sides.

    Raises:
        InvalidVariant: the reference has no gradients there, or none that can be told from wrong ones.
    """
    if reference.backward:
        raise InvalidVariant("its gradients are outputs already")
    size = values.size_of(reference.draw(shape, seed))
    if size > DIFFERENTIATED_BYTES:
        raise InvalidVariant(f"its inputs take more than {DIFFERENTIATED_BYTES >> 20} MiB")
    is_small = size + values.size_of(list(parameters_of(reference.call).values())) <= LOOKED_AT_BYTES
    seeds = range(seed, seed + (DRAWS if is_small else 1))
    try:
        return _best(attempt(functools.partial(_case, reference, shape, number, is_small)) for number in seeds)
    except Refused as refused:
        raise InvalidVariant(f"it cannot be differentiated: {refused}") from None


def _best(drawn: Iterator[_Drawn]) -> _Drawn:
    """The first in which nothing jumps; else the first that says what is right.

    Where candidates may have TF32, nothing may jump by that in any: theirs would jump elsewhere.
    """
    doubt, best = "", None
    for case in drawn:
        if any(target.jumps_in_tf32 for target in case[1]):
            raise Refused("gradients jump where its convolutions run in TF32")
        why = next(filter(None, (target.doubt(may_be_nan=False) for target in case[1])), "")
        if not why and not any(target.jumps for target in case[1]):
            if not any(target.is_tf32 for target in case[1]):
                return case
            best = best or case
        doubt = doubt or why
        if best is None and not why:
            best = case
    if best is None:
        raise Refused(doubt)
    return best


def _case(reference: ReferenceProblem, shape: str, seed: int, find_jumps: bool) -> _Drawn:
    inputs = to_device(reference.draw(shape, seed))
    reference.restart()
    forward = copy.deepcopy(reference.call) if isinstance(reference.call, torch.nn.Module) else reference.call
    wide = in_precision(forward, torch.float64) if isinstance(forward, torch.nn.Module) else forward
    outputs = forward(*values.mapped(inputs, torch.clone))
    arguments = [*inputs, to_device(list(backward.cotangents(outputs, seed)))]
    parameters = parameters_of(forward)
    names = list(parameters), list(labels(_names(reference, inputs), list(parameters)))
    tolerance = read_tolerance(reference.tolerance)

    def native_gradients() -> Answers:
        answer: Answers = followed(forward, parameters)(*arguments)
        return answer

    def precise(share: float = 0.0, number: int = 0) -> Answers:
        answer: Answers = in_float64(followed(wide, parameters_of(wide)), arguments, share, number)
        return answer

    permitted = run_in_tf32(native_gradients)
    epsilon = epsilon_of(values.leaves(outputs))
    if epsilon <= torch.finfo(torch.float32).eps and not permitted:
        with contextlib.suppress(TooManyCorners):
            sides = Sides(native_gradients, precise, epsilon, tolerance)
            return arguments, sides.targets, *names, sides if sides.corners else None
    native = native_gradients()
    share = far_share(epsilon)
    moves = [(0.0, 0), *((epsilon, 1 + number) for number in range(FEW_SHAKES))]
    moves += [(share, 0), (-share, 0)] if find_jumps else []
    targets = [
        Target(
            answer,
            exact,
            tolerance,
            moved[:FEW_SHAKES],
            permitted=tf32,
            far=moved[FEW_SHAKES:],
            epsilons=share / epsilon,
            step=share if find_jumps else 0.0,
        )
        for answer, tf32, (exact, *moved) in zip(
            native,
            permitted or [None] * len(native),
            zip(*(precise(*move) for move in moves), strict=True),
            strict=True,
        )
    ]
    return arguments, targets, *names, None


def step_labels(reference: ReferenceProblem, inputs: list[Any], returned: int) -> tuple[str, ...]:
    """What each of the ``returned`` numbers of a step is that gives the gradients behind its outputs, in words."""
    gradients = [f"the gradient of {name}" for name in _names(reference, inputs)]
    return *(f"output {index}" for index in range(returned - len(gradients))), *gradients


def _names(reference: ReferenceProblem, inputs: list[Any]) -> list[str]:
    """A name for every floating tensor among the inputs."""
    names: list[str] = []
    for index, value in enumerate(inputs):
        name = reference.signature[index] if index < len(reference.signature) else f"input {index}"
        count = sum(map(_is_floating, values.leaves(value)))
        names += [name] if isinstance(value, torch.Tensor) and count else [f"{name}[{i}]" for i in range(count)]
    return names
