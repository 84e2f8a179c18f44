"""PyTorch's own lists of operators and modules, as things to capture: ``op_db``, ``module_db``. Needs ``expecttest``.

Runs in child processes: importing the lists takes ten seconds.
"""

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from .sample import Sample


def names_of(list_name: str, dtype: str) -> list[str]:
    """The names in a list of what knows ``dtype`` on a CPU."""
    kind = getattr(torch, dtype)
    if list_name == "modules":
        # Their list says what PyTorch's own tests draw: modules take every floating type.
        return [info.name for info in module_db if kind in info.dtypes or kind.is_floating_point]
    return [_full_name(info) for info in common_methods_invocations.op_db if kind in info.supported_dtypes("cpu")]


def samples_of(list_name: str, name: str, dtype: str, most: int) -> Iterator[tuple[int, Sample]]:
    """``most`` of its samples, from the first to the last, numbered as the list has them; all of them for 0."""
    kind = getattr(torch, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        if list_name == "modules":
            info = next(info for info in module_db if info.name == name)
            makers = [_maker(info, kind, training) for training in _modes(info)]
            samples: list[Callable[[], Sample]] = list(chain.from_iterable(makers))
        else:
            operator = next(info for info in common_methods_invocations.op_db if _full_name(info) == name)
            drawn = list(operator.sample_inputs("cpu", kind))
            samples = [partial(_of_operator, operator, sample) for sample in drawn]
    for number in _spread(len(samples), most):
        torch.manual_seed(number)
        yield number, samples[number]()


def _spread(count: int, most: int) -> list[int]:
    if not most or count <= most:
        return list(range(count))
    return sorted({round(place * (count - 1) / max(most - 1, 1)) for place in range(most)})


def _full_name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def _modes(info: Any) -> tuple[bool, ...]:
    return (False, True) if info.train_and_eval_differ else (False,)


def _unseeded(operator: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return operator(*arguments, **keywords)


# The list hides that an operator draws numbers: it seeds the generator before each call.
common_methods_invocations.wrapper_set_seed = _unseeded


def _of_operator(operator: Any, sample: Any) -> Sample:
    """The operator as a function of its tensors: all else is part of it."""
    flat, structure = tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
    places = [place for place, value in enumerate(flat) if isinstance(value, torch.Tensor)]
    # A tensor that the list gives twice is one tensor to the operator and two arguments to a kernel.
    tensors = [flat[place].detach().clone() for place in places]

    def call(*values: Any) -> Any:
        full = list(flat)
        for place, value in zip(places, values, strict=True):
            full[place] = value
        arguments, keywords = tree_unflatten(full, structure)
        return operator.op(*arguments, **keywords)

    return Sample(call, tensors, [f"x{place}" for place in range(len(places))])


def _maker(info: Any, dtype: torch.dtype, training: bool) -> list[Callable[[], Sample]]:
    drawn = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=training)
    return [partial(_of_module, info, given, dtype, training) for given in drawn]


def _of_module(info: Any, given: Any, dtype: torch.dtype, training: bool) -> Sample:
    """The module, and the arguments of its call by position, defaults filled in where one in front of them is given."""
    made = given.constructor_input
    module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
    called = given.forward_input
    bound = inspect.signature(module.forward).bind(*called.args, **called.kwargs)
    bound.apply_defaults()
    arguments = [*bound.args, *bound.kwargs.values()]
    names = [*bound.arguments][: len(arguments)]
    names += [f"argument_{place}" for place in range(len(names), len(arguments))]
    if info.is_lazy:
        with torch.no_grad():
            module(*copy.deepcopy(arguments))
    return Sample(module, arguments, names)
