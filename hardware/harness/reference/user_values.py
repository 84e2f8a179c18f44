"""Values of a problem's file for the harness: arguments that can be sent, weights, and sentences about errors."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..calls.answering import Refused
from ..messages.commands import Open
from ..tensors import values


def scale_weights(module: torch.nn.Module, exponents: Mapping[str, int]) -> None:
    """Multiply the parameters of these names by powers of two (:mod:`.weights`)."""
    parameters = dict(module.named_parameters())
    for name, exponent in exponents.items():
        parameters[name].detach().mul_(2.0**exponent)


def check_packable(arguments: Sequence[Any], problem: Open) -> None:
    """Make sure that candidates can be given the constructor's arguments.

    Raises:
        Refused: they cannot.
    """
    try:
        os.close(values.pack(arguments)[1])
    except (values.Unsupported, RecursionError) as error:
        what = "a list that holds itself" if isinstance(error, RecursionError) else str(error)
        raise Refused(
            f"{problem.name}.py: get_init_inputs() returns {what}, which no candidate can be given; return "
            "tensors, numbers, text, modules, classes and functions of torch, or objects, lists, tuples and "
            "dictionaries of these"
        ) from None


def explained(refused: Refused, problem: Open, failure: str) -> Refused:
    """``refused`` as a sentence for the problem's author: which file, its ``failure``, why, and the way out."""
    if refused.kind == "cuda":
        return Refused(
            f"{problem.name}.py asks for cuda, pool {problem.device} has none; make its tensors on the cpu",
            log=refused.log,
        )
    if refused.kind == "memory":
        return Refused(
            f"{problem.name}.py {failure}: it does not fit in memory ({refused}); use smaller shapes or raise "
            f"candidate_memory_bytes of pool {problem.device}",
            log=refused.log,
        )
    return Refused(f"{problem.name}.py {failure}: {refused}", log=refused.log)


def check_finite(inputs: Sequence[Any], names: Sequence[str], problem: Open) -> None:
    """That inputs which a problem says are finite are so.

    Raises:
        Refused: they are not.
    """
    for index, value in enumerate(inputs):
        numbers = [tensor for tensor in values.tensors_of(value) if tensor.is_floating_point()]
        if not all(values.all_finite(tensor.reshape(-1)) for tensor in numbers):
            name = names[index] if index < len(names) else str(index)
            raise Refused(
                f"{problem.name}.py sets `finite_inputs`, but its input {name} has numbers that are not finite; "
                "leave the line out, or draw others"
            )
