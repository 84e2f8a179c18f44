"""What one problem asks of a candidate file, in sentences: the same for models and for outside authors.

What holds for every file is in the corpus (``constraints/``) and in the outside authors' brief.
"""

import re
from collections.abc import Iterator, Sequence

from ...schemas import InputFact, Problem, ProblemFacts, StateFact

_INDEX_TYPES = ("int64", "int32")
_FLOATING = ("float", "bfloat", "complex")
_ORDERING = re.compile(r"\b(?:sort|topk|argsort|argmax|argmin|max|min|kthvalue|median|mode|msort)\b")
"""ATen operators that choose among equal values."""
_HAS_TOLERANCE = re.compile(r"^tolerance\b", re.MULTILINE)
_MOST_BOUNDS = 8
"""Results whose bounds are listed; of more the least one is given."""


def what_to_write(facts: ProblemFacts) -> str:
    """What a candidate file must define, in a sentence."""
    parameters = ", ".join(facts.parameter_names)
    if facts.is_module:
        return f"class ModelNew(nn.Module): Model's constructor and parameter names, forward(self, {parameters})"
    gradients = (
        f"; differentiable, or with `def backward({parameters}, cotangents...)` beside it, which gives the gradients "
        "by the floating inputs"
    )
    return f"def kernel({parameters}): the parameters and answers of `reference`{gradients * facts.has_backward}"


def contract(problem: Problem, facts: ProblemFacts) -> tuple[str, ...]:
    """What the file must do beyond :func:`what_to_write`, a sentence each."""
    return (
        _timed(facts),
        *_other_sizes(facts),
        *_precision(problem, facts),
        *_gradients(facts),
        *_state(facts.state),
        *_ties(facts),
    )


def _timed(facts: ProblemFacts) -> str:
    timed = facts.timed
    others = "; at the other shapes it must be right" if len(facts.shapes) > len(timed) else ""
    passes = ", forward and backward pass as one call" if facts.has_backward else ""
    if len(timed) == 1:
        return f"timed at shape {timed[0].name}{passes}{others}"
    weights = _listed([f"{shape.name} (weight {shape.weight:g})" for shape in timed])
    return (
        f"timed at {weights}{passes}: the speedup is the geometric mean of those at these shapes by their weights"
        f"{others}"
    )


def tries_other_sizes(facts: ProblemFacts) -> bool:
    """Whether candidates are also called at sizes that the problem does not name."""
    return any(kind.name.startswith("held_out") and not kind.refused for kind in facts.input_kinds)


def _other_sizes(facts: ProblemFacts) -> Iterator[str]:
    if tries_other_sizes(facts):
        yield (
            "sizes that the problem does not name are tried, too: be right there, by PyTorch's operators if need be, "
            "or raise a ValueError"
        )


def _precision(problem: Problem, facts: ProblemFacts) -> Iterator[str]:
    match = f"precision to match: {facts.dtype}"
    if facts.error_bound is None:
        # Of older sessions nothing is known of it.
        yield (
            f"{match}; how far off it may be is the file's own `tolerance`"
            if _HAS_TOLERANCE.search(problem.source)
            else match
        )
        return
    if facts.error_bound == 0.0:
        yield f"{match}; the answer has to be equal"
        return
    oracle = "the reference in float64" if facts.float64_oracle else "the reference at its own precision"
    bounds = [f"{facts.error_bound:.2g} at {facts.shapes[0].name}"]
    bounds += [f"{s.error_bound:.2g} at {s.name}" for s in facts.timed[1:] if s.error_bound is not None]
    apart = {f"{bound:.2g}" for bound in facts.error_bounds.values()}
    results = [f"{name} {bound:.2g}" for name, bound in facts.error_bounds.items()]
    by_result = f" (by result: {', '.join(results)})" if len(apart) > 1 and len(results) <= _MOST_BOUNDS else ""
    yield (
        f"{match}; the error against {oracle}, |got - right| / (|right| + rms(right)), may be {_listed(bounds)}"
        f"{by_result}"
    )


def _gradients(facts: ProblemFacts) -> Iterator[str]:
    inputs = [fact for fact in facts.shapes[0].inputs if fact.name in facts.parameter_names]
    floating = [f"`{fact.name}`" for fact in inputs if _is_floating(fact)]
    # What is in a list or a dictionary has no name.
    names = f" ({', '.join(floating)})" if floating and not any(fact.kind == "other" for fact in inputs) else ""
    entry = "`ModelNew`" if facts.is_module else "`kernel`"
    if facts.has_backward:
        arguments = ", ".join([*facts.parameter_names, "cotangents..."])
        yield (
            f"judged are the outputs and, as results behind them, the gradients of sum(output * cotangent) by every "
            f"floating input{names}. {entry} returns the outputs alone. It is differentiable (a "
            "`torch.autograd.Function` around your kernels), or the file defines "
            f"`def backward({arguments})` at module level, too: with a cotangent for each floating output it returns "
            "the gradients by these inputs in their order, None for one that is zero, and it gets nothing else of the "
            "forward pass. Cotangents are known only after the forward pass"
        )
    elif floating or any(map(_is_floating, facts.parameters.values())):
        yield (
            f"timed and compared with gradients off, but called with gradients on as well: then {entry} gives right "
            "ones for every floating input and parameter (a `torch.autograd.Function` around your kernels), or no "
            "graph at all (under `torch.no_grad()`); a graph with holes is wrong"
        )


def _state(state: Sequence[StateFact]) -> Iterator[str]:
    if state:
        names = _listed([f"{fact.kind} `{fact.name}`" for fact in state])
        yield f"a call of the reference changes {names}: leave the same in it, in place, and change nothing else"


def _ties(facts: ProblemFacts) -> Iterator[str]:
    outputs = [fact for shape in facts.shapes[:1] for fact in shape.outputs]
    if any(fact.dtype in _INDEX_TYPES for fact in outputs) and _ORDERING.search(" ".join(facts.operators)):
        yield (
            "the answer has indices: of equal values those count that the reference chooses, another order is wrong; "
            "judged inputs have ties also where small ones have none"
        )


def _is_floating(fact: InputFact) -> bool:
    return fact.kind == "tensor" and fact.dtype.startswith(_FLOATING)


def _listed(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
