"""What problem validation learns from running the reference, shape by shape, on its own inputs and on variants.

Where its own inputs let an answer pass that ignores them, a module is examined once more with other weights
(:mod:`.weights`); those are its weights from then on, for whoever is judged and for the baselines.
"""

import functools
import math
import time
from dataclasses import dataclass, field
from typing import Any

import torch
from msgspec.structs import replace

from ....schemas import InputFact, InputKind, ProblemFormat, ShapeFacts, StateFact
from ...dropin.conditions import described
from ...processes import objects
from ...processes.messages import HOST
from ..calls.answering import Refused
from ..inputs import held_out
from ..inputs.sizes import bytes_of, is_large, left_out
from ..messages.commands import Open
from ..tensors import values
from ..tensors.bounds import read_tolerance
from ..tensors.compare import Target, relative_bounds
from ..tensors.likeness import repeats, same
from ..tensors.tensor_placement import current_device, to_device
from .effects import CALLS, Called, called, facts_of, names_of
from .needed import needed_bytes
from .problem import ReferenceProblem, open_reference
from .targets import targets_of
from .user_values import check_finite
from .validity import InputVariants, InvalidVariant, Usual, elsewhere, is_slow, usual
from .weights import variance_exponents
from .wrong_answers import distances, farthest, ignores_inputs, passing

MOST_LITERAL = 4096
"""Characters of an input that is no tensor, as text: a longer one fits no call."""

FIXED_SEEDS = (1, 2)
"""Validation draws from known seeds: nothing that it draws is used to judge a candidate."""


def examined(reference: ReferenceProblem, problem: Open, main: list[Any]) -> "Examination":
    """The examination of ``reference`` at all shapes; ``main`` are inputs at the timed one, which are emptied.

    Its reference is another one than ``reference`` where that needs other weights.

    Raises:
        Refused: it cannot be searched.
    """
    examination = _examined(reference, problem, main)
    if not ignores_inputs(passing(examination.distances)):
        return examination
    timed = reference.shapes[0]
    exponents = variance_exponents(reference, to_device(reference.draw(timed, FIXED_SEEDS[0])))
    if not exponents:
        return examination
    other = replace(problem, weight_exponents=exponents)
    scaled = open_reference(other)
    scaled.move_to_device()
    again = _examined(scaled, other, drawn(scaled, other, timed))
    if not passing(again.variants.distances):
        return again
    examination.tried_weights = True
    return examination


def _examined(reference: ReferenceProblem, problem: Open, main: list[Any]) -> "Examination":
    examination = Examination(reference, problem)
    for name in reference.shapes:
        examination.examine(name, main if name == reference.shapes[0] else drawn(reference, problem, name))
    return examination


@dataclass
class Examination:
    """What is found out by running the reference, shape by shape, where it is to run."""

    reference: ReferenceProblem
    problem: Open
    shapes: list[ShapeFacts] = field(default_factory=list)
    float64: bool = True
    dtype: str = ""
    """Precision to match."""
    error_bounds: dict[str, dict[str, float] | None] = field(default_factory=dict)
    """Of the floating results, by timed shape; None if they are absolute."""
    is_tf32: bool = False
    """Whether bounds at a timed shape allow for convolutions in TF32: the reference may have them so by itself."""
    state: tuple[StateFact, ...] = ()
    """What a call of the reference changes."""
    final_state: dict[str, tuple[InputFact, ...]] = field(default_factory=dict)
    """What a call leaves of that, by timed shape."""
    needed: dict[str, int] = field(default_factory=dict)
    """Bytes of the inputs that the answer cannot do without, by timed shape."""
    peak_bytes: int = 0
    """Most bytes of an accelerator that a call took, weights, inputs and outputs included."""
    sizes: dict[str, int] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    usual: dict[str, Usual] = field(default_factory=dict)
    distances: dict[str, float] = field(default_factory=dict)
    """How far off wrong answers are at most on the problem's own inputs, in error bounds."""
    others: dict[str, list[Any]] = field(default_factory=dict)
    """The answers to other inputs, by shape; none where inputs are the same for every seed, or large."""
    lone: list[Any] | None = None
    is_drawn_on_device: bool = False
    """Whether inputs come from an accelerator's own generator."""
    tried_weights: bool = False
    """Whether other weights decide nothing either."""

    @property
    def distance(self) -> float | None:
        """How far off the wrong answer is that is nearest to a right one, where that is a number."""
        return min(filter(math.isfinite, self.variants.distances.values()), default=None)

    @property
    def _tried(self) -> str:
        return ", also with weights that keep the variance of activations" if self.tried_weights else ""

    def examine(self, name: str, taken: list[Any]) -> None:
        """Examine the problem at one shape, on ``taken``, which are emptied.

        Raises:
            Refused: it cannot be searched.
        """
        inputs = to_device(taken)
        taken.clear()
        self._check_drawn_again(name, inputs)
        began = time.monotonic()
        current_device().begin_peak()
        first = _called_from(FIXED_SEEDS[0], self.reference, self.problem, inputs, name)
        self.peak_bytes = max(self.peak_bytes, current_device().peak_bytes)
        half = time.monotonic() - began
        _check_deterministic(self.reference, self.problem, name, inputs, first)
        self._check_depends(name, inputs, first)
        self._take_state(inputs, first)
        began = time.monotonic()
        targets = targets_of(self.reference, self.problem, inputs, first=first)
        self.took[name] = time.monotonic() - began + half
        self.sizes[name] = values.size_of(inputs)
        self.usual[name] = usual(inputs, targets)
        self._take_other_answer(name, inputs, targets)
        far = self._distances_next(name, inputs, distances(inputs, targets, self.others[name]))
        self.distances = farthest(self.distances, far) if self.shapes else far
        if not self.shapes or name in self.reference.timed:
            tolerance = read_tolerance(self.reference.tolerance)
            self.error_bounds[name] = relative_bounds(tolerance, targets)
            if any(target.error_in_tf32 for target in targets) and not tolerance.is_given:
                self.is_tf32 = not any(target.jumps_in_tf32 for target in targets)
            self.final_state[name] = _facts([target for target in targets if target.entry is not None])
            self.needed[name] = 0 if is_slow(self.took[name]) else needed_bytes(self.reference, inputs)
        self.float64 = self.float64 and all(target.float64 for target in targets)
        self.dtype = self.dtype or _dtype_to_match(targets)
        self.shapes.append(_shape_facts(self.reference, name, inputs, targets))
        self.lone = inputs if len(self.reference.shapes) == 1 and not self._is_drawn_anew(name, targets) else None

    def _is_drawn_anew(self, shape: str, targets: list[Target]) -> bool:
        """Whether large inputs are drawn where they are needed, in less time than they would keep memory from others.

        A processor draws 6 GB in one thread.
        """
        size = sum(bytes_of(target.shape, target.dtype) for target in targets)
        return self.is_drawn_on_device and is_large(self.sizes[shape], size)

    def _take_other_answer(self, shape: str, inputs: list[Any], targets: list[Target]) -> None:
        others = to_device(self.reference.draw(shape, FIXED_SEEDS[1]))
        size = sum(bytes_of(target.shape, target.dtype) for target in targets)
        is_other = not is_large(self.sizes[shape], size) and not same(inputs, others)
        self.others[shape] = called(self.reference, self.problem, others).answer if is_other else []

    def _distances_next(self, shape: str, inputs: list[Any], far: dict[str, float]) -> dict[str, float]:
        """Those of the wrong answers that pass so far, for the next call, too, which finds another state."""
        if not passing(far) or self.reference.module is None or not self.state:
            return far
        following = to_device(self.reference.draw(shape, FIXED_SEEDS[1]))
        targets = targets_of(self.reference, self.problem, following, earlier=[inputs])
        return farthest(far, far | distances(following, targets, self.others[shape], passing(far)))

    def _check_drawn_again(self, shape: str, inputs: list[Any]) -> None:
        again = self.reference.draw(shape, FIXED_SEEDS[0])
        devices = {tensor.device.type for tensor in values.tensors_of(again)}
        self.is_drawn_on_device = HOST not in devices
        if not same(inputs, to_device(again)):
            raise Refused(
                f"{self.problem.name}.py is not deterministic: inputs at shape {shape!r} differ although the seed is "
                "the same; draw from the given generator only"
            )

    def _take_state(self, inputs: list[Any], first: Called) -> None:
        """What calls change: some only do from the second one on."""
        entries = first.entries
        if self.reference.changed():
            entries = called(self.reference, self.problem, inputs, [inputs] * (CALLS - 1)).entries
        self.state = tuple(dict.fromkeys((*self.state, *facts_of(entries))))

    def _check_depends(self, shape: str, inputs: list[Any], first: Called) -> None:
        """Numbers alone may be the same whatever the inputs are; of tensors the wrong answers show that."""
        if first.entries or not all(isinstance(output, int | float) for output in first.outputs):
            return
        others = to_device(self.reference.draw(shape, FIXED_SEEDS[1]))
        again = _called_from(FIXED_SEEDS[0], self.reference, self.problem, others, shape)
        if same(first.outputs, again.outputs) and not same(inputs, others):
            raise Refused(
                f"{self.problem.name}.py decides nothing: the reference returns "
                f"{', '.join(map(repr, first.outputs))} for different inputs at shape {shape!r}; return what is "
                "computed from them"
            )

    def error_bound(self, shape: str) -> float | None:
        """The least that is allowed of the floating results, 0 without any; None where it is absolute."""
        bounds = self.error_bounds[shape]
        return None if bounds is None else min(bounds.values(), default=0.0)

    @functools.cached_property
    def variants(self) -> InputVariants:
        """The inputs made from the problem's own, examined, now that all shapes were."""
        variants = InputVariants(
            self.reference,
            self.problem,
            FIXED_SEEDS[0],
            self.sizes,
            {shape.name: sum(map(bytes_in, (*shape.inputs, *shape.outputs))) for shape in self._timed},
            self.took,
            self.usual,
            self.distances,
            self.others,
            self.lone,
        )
        variants.examine()
        return variants

    def input_kinds(self) -> tuple[InputKind, ...]:
        """All inputs beside the problem's own.

        Raises:
            Refused: a wrong answer passes on all of them.
        """
        if names := passing(self.variants.distances):
            bounds = self.variants.distances[names[0]]
            raise Refused(
                f"{self.problem.name}.py decides nothing: {names[0]} passes as the right answer on all inputs that "
                f"candidates would be checked on, off by {bounds:.2g} error bounds at most{self._tried}; change its "
                "inputs or its tolerance"
            )
        left = (kind for shape in self._timed for kind in _left_out(shape))
        return (*left, *self.variants.input_kinds, *self.held_out())

    @property
    def _timed(self) -> list[ShapeFacts]:
        return [shape for shape in self.shapes if shape.name in self.reference.timed] or self.shapes[:1]

    def held_out(self) -> tuple[InputKind, ...]:
        """Whether shapes can be made up that the problem does not name. Those tried here are none that is judged on."""
        input_kinds: list[InputKind] = []
        for base, variants in held_out.bases(self.sizes, {shape.name: bool(_left_out(shape)) for shape in self._timed}):
            for variant in variants:
                sizes = held_out.made_up(self.reference.sizes, base, variant, self.sizes[base], FIXED_SEEDS[0])
                if sizes is None:
                    continue
                refused = self._refused_at(base, variant, sizes)
                input_kinds.append(InputKind(name=variant, shape=base, refused=refused))
                if not refused:
                    break
        if input_kinds:
            return tuple(input_kinds)
        is_module = self.problem.format is ProblemFormat.kernelbench
        why = held_out.ONE_SHAPE if is_module else held_out.NO_SIZES
        return (InputKind(name=held_out.HELD_OUT, shape=self.reference.shapes[0], refused=why),)

    def _refused_at(self, base: str, variant: str, sizes: dict[str, int]) -> str:
        usual_there, took = self.usual[base], self.took[base]
        try:
            elsewhere(self.reference, self.problem, base, variant, sizes, FIXED_SEEDS[0], usual_there, took)
        except InvalidVariant as why:
            return str(why)
        return ""


def _left_out(main: ShapeFacts) -> tuple[InputKind, ...]:
    """What candidates are not checked on at a timed shape."""
    why = left_out(sum(map(bytes_in, main.inputs)), sum(map(bytes_in, main.outputs)))
    return (InputKind(name="more_sets", shape=main.name, refused=why),) if why else ()


def _check_deterministic(
    reference: ReferenceProblem, problem: Open, shape: str, inputs: list[Any], first: Called
) -> None:
    """Call the reference once more, from the same start but from another state of the global generators than before.

    Not against the oracle: that is a call too, and a random one makes a bound that lets everything pass.
    """
    again = _called_from(FIXED_SEEDS[1], reference, problem, inputs, shape)
    name = _difference(first, again)
    if not name:
        return
    if _repeats_in_evaluation(reference, problem, shape, inputs):
        raise Refused(
            f"{problem.name}.py is not deterministic: {name} differs between two calls on the same inputs at shape "
            f"{shape!r}, as its modules are in training mode; they are alike in evaluation mode: call eval() on "
            "the module, or self.eval() at the end of its constructor"
        )
    raise Refused(
        f"{problem.name}.py is not deterministic: {name} differs between two calls on the same inputs at shape "
        f"{shape!r}; a random step must become an input{_way_out(reference)}"
    )


def _repeats_in_evaluation(reference: ReferenceProblem, problem: Open, shape: str, inputs: list[Any]) -> bool:
    """Whether calls of a module in training mode would be alike in the other one, which it is left in."""
    if reference.module is None or not any(module.training for module in reference.module.modules()):
        return False
    reference.module.eval()
    try:
        return not _difference(*(_called_from(seed, reference, problem, inputs, shape) for seed in FIXED_SEEDS[:2]))
    except Refused:
        return False  # that it fails in this mode is nothing that the file does


def _difference(first: Called, again: Called) -> str:
    """What two calls from the same start do not have in common; empty if they are alike."""
    names = [*(f"output {index} of the reference" for index, _ in enumerate(first.outputs))]
    names += [f"{entry.kind} {entry.name}, which the reference writes," for entry in first.entries]
    alike = first.entries == again.entries and len(first.outputs) == len(again.outputs)
    answers = zip(names, first.answer, again.answer, strict=False)
    return next((name for name, answer, repeated in answers if not alike or not repeats(answer, repeated)), "")


def _way_out(reference: ReferenceProblem) -> str:
    if reference.module is None:
        return ", and what one call leaves for the next an input that is written"
    return ", and what one call leaves for the next a buffer, or an attribute that is a tensor or a number"


def _called_from(seed: int, reference: ReferenceProblem, problem: Open, inputs: list[Any], shape: str) -> Called:
    torch.manual_seed(seed)
    return called(reference, problem, inputs, shape=shape)


def _shape_facts(reference: ReferenceProblem, name: str, inputs: list[Any], targets: list[Target]) -> ShapeFacts:
    outputs = _facts([target for target in targets if target.entry is None])
    named = zip(names_of(reference.signature, len(inputs)), inputs, strict=True)
    return ShapeFacts(name=name, inputs=tuple(fact_of(key, value) for key, value in named), outputs=outputs)


def _facts(targets: list[Target]) -> tuple[InputFact, ...]:
    return tuple(
        InputFact(name=f"output_{index}", kind=target.kind, shape=target.shape, dtype=target.dtype)
        for index, target in enumerate(targets)
    )


def fact_of(name: str, value: Any) -> InputFact:
    """``value`` as the search knows it."""
    if isinstance(value, torch.Tensor):
        return InputFact(name=name, kind="tensor", shape=tuple(value.shape), dtype=values.dtype_name(value.dtype))
    kind = type(value).__name__
    return InputFact(
        name=name, kind=kind if kind in ("int", "float", "bool") else "other", literal=described(value)[:MOST_LITERAL]
    )


def _dtype_to_match(targets: list[Target]) -> str:
    floating = [target.dtype or target.kind for target in targets if target.floating]
    return floating[0] if floating else targets[0].dtype or targets[0].kind


def bytes_in(fact: InputFact) -> int:
    """Bytes of a tensor; 0 for anything else."""
    return bytes_of(fact.shape, fact.dtype)


def drawn(reference: ReferenceProblem, problem: Open, shape: str) -> list[Any]:
    """Inputs at ``shape``, made sure to be ones that a candidate can be given; wherever they were drawn."""
    inputs = reference.draw(shape, FIXED_SEEDS[0])
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.device not in (torch.device("cpu"), current_device().device):
            raise Refused(
                f"{problem.name}.py asks for {value.device.type}, pool {problem.device} has none; make its tensors "
                "on the cpu"
            )
        _check_value(problem, reference, index, value)
    if reference.finite_inputs:
        check_finite(inputs, reference.signature, problem)
    return inputs


def _check_value(problem: Open, reference: ReferenceProblem, index: int, value: Any) -> None:
    allowed = (torch.Tensor, bool, int, float, str, type(None), torch.dtype)
    for leaf in values.leaves(value):
        if not isinstance(leaf, allowed) and not objects.can_travel(leaf):
            name = reference.signature[index] if index < len(reference.signature) else str(index)
            raise Refused(
                f"{problem.name}.py: input {name} is a {type(leaf).__name__}; give tensors, or what Python can pickle"
            )
