"""The reference's process: draws inputs, computes right answers, compares. It never gets a candidate's code."""

import itertools
import math
import os
import socket
import time
import warnings
from collections.abc import Sequence
from typing import Any

import msgspec
import torch
from msgspec.structs import replace

from ...processes.linux import LESS_URGENT
from ...processes.messages import HOST, Spawn
from ..calls.answering import Handlers, Refused, serve_commands
from ..calls.sleeping_threads import sleep_while_waiting
from ..calls.state import roles
from ..inputs.variants import GRADIENTS, NORMAL
from ..messages.batch import Draw, Drawn
from ..messages.commands import CaseMade, Compare, Compared, Explain, Explained, MakeCase, Open, Opened, Values
from ..reference.corners import Sides
from ..reference.effects import called
from ..reference.gradients import PASSES, gradient_case, step_labels
from ..reference.precision import Answer, step_for, suspected
from ..reference.problem import ReferenceProblem, open_reference
from ..reference.published import Published, published
from ..reference.targets import targets_of
from ..reference.ties import floating, names_equal_values
from ..reference.validity import TOO_SLOW, InvalidVariant, Usual, changed, elsewhere, is_slow, usual
from ..reference.wrong_answers import distances, passing
from ..tensors import values
from ..tensors.compare import Target
from ..tensors.output_transfer import Written, written
from ..tensors.tensor_placement import TensorDevice, current_device, set_device, to_device


def prepare_process(request: Spawn) -> TensorDevice:
    """What every child that runs a problem file sets first; returns where its tensors live."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(request.threads)
    torch.set_grad_enabled(False)
    return set_device(request.device)


def serve(channel: socket.socket, request: Spawn) -> None:
    """Answer the supervisor until it lets go."""
    prepare_process(request)
    sleep_while_waiting(request.threads)
    # Nothing is timed in here. Drafts are compared while the baselines compile, and everybody waits for the latter.
    os.nice(LESS_URGENT)
    reference = _Reference()
    handlers: Handlers = {
        Open: reference.open,
        MakeCase: reference.make_case,
        Draw: reference.draw,
        Compare: reference.compare,
        Explain: reference.explain,
    }
    serve_commands(channel, handlers)


FEW_NUMBERS, DRAWS_OF_FEW = 64, 4
"""The own error of an output of so few numbers is looked at on so many draws."""


class _Reference:
    def __init__(self) -> None:
        self._reference: ReferenceProblem | None = None
        self._problem: Open | None = None
        self._cases: dict[int, list[Target]] = {}
        self._sides: dict[int, Sides] = {}
        """Of cases of gradients with numbers beside corners."""
        self._published: dict[int, Published | None] = {}
        self._drawn_on_device: set[str] = set()
        """Shapes whose inputs an accelerator draws itself."""
        self._took: dict[str, float] = {}
        """How long the last case on the problem's own inputs took to make, by shape, seconds."""
        self._usual: dict[str, Usual] = {}
        """What the problem's own inputs are like, by shape."""
        self._errors: dict[str, list[float]] = {}
        """The largest own error of each output of few numbers on several draws of a shape; 0 of all others."""

    def open(self, command: Open, descriptors: list[int]) -> Opened | tuple[Opened, Sequence[int]]:
        self._problem, self._reference = command, open_reference(command)
        self._reference.move_to_device()
        setup = self._reference.setup()
        if setup is None:
            reference = self._reference
            return Opened(
                shapes=reference.shapes,
                timed=max(1, len(reference.timed)),
                backward=reference.backward,
                sizes=reference.sizes,
                finite_inputs=reference.finite_inputs,
            )
        packed, file = values.pack(setup)
        return Opened(
            shapes=self._reference.shapes,
            setup=packed,
            backward=self._reference.backward,
            roles=roles(self._reference.module),
            finite_inputs=self._reference.finite_inputs,
        ), (file,)

    def draw(self, command: Draw, descriptors: list[int]) -> tuple[Drawn, Sequence[int]]:
        """Input sets for batches, none of which is kept here."""
        assert self._reference is not None
        reference = self._reference
        draws = (reference.draw(command.shape, seed) for seed in command.seeds)
        # What an accelerator does is recorded on tensors that stay, of one description.
        alike = current_device().device.type != HOST
        inputs, stride, taken, file = values.pack_sets(draws, alike=alike)
        return Drawn(inputs=inputs, stride=stride, seeds=tuple(command.seeds[number] for number in taken)), (file,)

    def make_case(self, command: MakeCase, descriptors: list[int]) -> tuple[CaseMade, Sequence[int]]:
        assert self._reference is not None and self._problem is not None
        try:
            answer, file = self._make(command, descriptors)
        except InvalidVariant as why:
            answer, file = CaseMade(inputs=Values(items=(), size=0), outputs=(), float64=False, refused=str(why)), ()
        # Only now, of a refused case too: what it was made of is let go of with the exception.
        current_device().tidy()
        return answer, file

    def _make(self, command: MakeCase, descriptors: list[int]) -> tuple[CaseMade, Sequence[int]]:
        self._published.pop(command.case, None)
        if command.kind == GRADIENTS:
            return self._gradients(command)
        if command.kind == NORMAL:
            answer, file, targets, self._published[command.case] = self._normal(
                command.shape, command.seed, command.earlier
            )
        else:
            inputs, targets = self._elsewhere(command) if command.sizes else self._changed(command, descriptors)
            self._expect(command.shape, targets)
            packed, file = values.pack(inputs)
            answer = _case_made(packed, targets, labels=self._labels(inputs, targets))
        self._cases[command.case] = targets
        return answer, (file,)

    def _gradients(self, command: MakeCase) -> tuple[CaseMade, Sequence[int]]:
        assert self._reference is not None
        if not command.again and is_slow(PASSES * self._took.get(command.shape, 0.0)):
            raise InvalidVariant(TOO_SLOW)
        inputs, targets, parameters, labels, sides = gradient_case(self._reference, command.shape, command.seed)
        packed, file = values.pack(inputs)
        self._cases[command.case] = targets
        self._sides.pop(command.case, None)
        if sides is not None:
            self._sides[command.case] = sides
        answer = CaseMade(
            inputs=packed,
            # Autograd gives expanded ones, and copies them where they add up.
            outputs=tuple(replace(target.expected(), overlaps=True) for target in targets),
            float64=all(target.float64 for target in targets),
            followed=tuple(parameters),
            labels=tuple(labels),
        )
        return answer, (file,)

    def _normal(
        self, shape: str, seed: int, earlier: Sequence[int] = ()
    ) -> tuple[CaseMade, int, list[Target], Published | None]:
        """Inputs of the problem's own, packed, what is right for them, and which wrong answers would pass for it."""
        assert self._reference is not None and self._problem is not None
        before = [to_device(self._reference.draw(shape, earlier_seed)) for earlier_seed in earlier]
        drawn = self._reference.draw(shape, seed)
        if all(tensor.device.type != HOST for tensor in values.tensors_of(drawn)):
            self._drawn_on_device.add(shape)
        packed, file = values.pack(drawn)
        began = time.monotonic()
        inputs = to_device(drawn)
        first = called(self._reference, self._problem, inputs, before)
        aliased, passes_on = first.aliased, first.passes_on
        other = published(self._reference.published_tolerance, shape, first.answer)
        targets = targets_of(self._reference, self._problem, inputs, first=first, earlier=before)
        if not before and shape not in self._errors:
            self._errors[shape] = self._usual_errors(shape, seed, targets, time.monotonic() - began)
        self._expect(shape, targets)
        names = passing(distances(inputs, targets))
        if not before:
            self._usual[shape] = usual(inputs, targets)
            self._took[shape] = time.monotonic() - began
        labels = self._labels(drawn, targets)
        made = _case_made(packed, targets, passing=names, labels=labels)
        return replace(made, aliased=aliased, passes_on=passes_on), file, targets, other

    def _labels(self, inputs: list[Any], targets: Sequence[Target]) -> tuple[str, ...]:
        """What each output is, where gradients are among them; the last of ``inputs`` are then the cotangents."""
        assert self._reference is not None
        if not self._reference.backward:
            return ()
        return step_labels(self._reference, inputs[:-1], sum(target.entry is None for target in targets))

    def _usual_errors(self, shape: str, seed: int, targets: list[Target], took: float) -> list[float]:
        """The own errors of outputs of few numbers, the largest of several draws: that of one is luck.

        Ten sums that share a factor are all right to the last digit where that is, and two others' kernels of the same
        arithmetic were right or wrong by the draw.
        """
        assert self._reference is not None and self._problem is not None
        is_few = [target.floating and target.float64 and math.prod(target.shape) <= FEW_NUMBERS for target in targets]
        errors = [target.reference_error * few for target, few in zip(targets, is_few, strict=True)]
        for number in range(1, DRAWS_OF_FEW if any(is_few) and not is_slow(DRAWS_OF_FEW * took) else 1):
            try:
                inputs = to_device(self._reference.draw(shape, (seed + number) % 2**48))
                others = targets_of(self._reference, self._problem, inputs)
            except Refused:
                break  # where it matters, it is said
            errors = [
                max(error, other.reference_error * few)
                for error, other, few in zip(errors, others, is_few, strict=True)
            ]
        return errors

    def _expect(self, shape: str, targets: list[Target]) -> None:
        for target, error in zip(targets, self._errors.get(shape, []), strict=False):
            target.expect_error(error)

    def _elsewhere(self, command: MakeCase) -> tuple[list[Any], list[Target]]:
        assert self._reference is not None and self._problem is not None
        like, took = self._like(command), 0.0 if command.again else self._took[command.shape]
        return elsewhere(
            self._reference, self._problem, command.shape, command.kind, command.sizes, command.seed, like, took
        )

    def _like(self, command: MakeCase) -> Usual:
        if command.shape not in self._usual:
            # This process took the place of the one that had drawn there.
            os.close(self._normal(command.shape, command.seed)[1])
        return self._usual[command.shape]

    def _changed(self, command: MakeCase, descriptors: list[int]) -> tuple[list[Any], list[Target]]:
        assert self._reference is not None and self._problem is not None
        if not command.again and is_slow(self._took.get(command.shape, 0.0)):
            raise InvalidVariant(TOO_SLOW)
        reference, given, like = self._reference, command.base, self._like(command)

        def draw(seed: int) -> list[Any]:
            # An accelerator draws gigabytes in less time than they take from a file.
            if given is not None and command.shape not in self._drawn_on_device:
                return unpacked(given, descriptors[0])
            inputs: list[Any] = to_device(reference.draw(command.shape, seed))
            return inputs

        return changed(reference, self._problem, draw, command.kind, command.seed, like.error, in_tf32=like.in_tf32)

    def compare(self, command: Compare, descriptors: list[int]) -> Compared:
        """The worst output; the first that is wrong, if one is."""
        # A call that was timed may hand over its outputs without the state.
        targets = self._cases[command.case][: len(command.outputs)]
        with written(descriptors[0], _end_of(targets)) as file:
            result = self._compared(command, targets, file)
            if result.ok or command.case not in self._sides:
                return result
            others = self._sides[command.case].explain(_all_written(targets, file))
            return result if others is None else self._compared(command, others, file)

    def _compared(self, command: Compare, targets: Sequence[Target], file: Written) -> Compared:
        position, worst = 0, Compared(ok=True, error=0.0, reference_error=0.0, bound=0.0)
        other, is_published = self._published.get(command.case), True
        for index, (target, output) in enumerate(zip(targets, command.outputs, strict=True)):
            if not target.is_judged:
                position = target.after(position)
                continue
            begin, target.where_finite = position, command.where_finite
            result, position = target.compare(output, file, position, index, command.allowance * target.bound)
            if not result.ok:
                return result
            if other is not None and target.kind == "tensor":
                is_published = is_published and other.accepts(index, target.read(file, begin))
            if index == 0 or _share(result) > _share(worst):
                worst = result
        return worst if other is None else msgspec.structs.replace(worst, published=is_published)

    def explain(self, command: Explain, descriptors: list[int]) -> Explained:
        """Whether a wrong output is what the reference computes in a lower precision, or equal values reordered."""
        assert self._reference is not None and self._problem is not None
        output, inputs = descriptors
        targets, given = self._cases[command.case], unpacked(command.inputs, inputs)
        if targets[command.output].is_index:
            return Explained(is_reordered=_is_reordered(targets, command.output, output, given))
        answer = _written(targets, command.output, output)
        precision = suspected(self._reference, given, command.output, answer)
        current_device().tidy()
        return Explained(precision=precision)


def _case_made(
    packed: Values,
    targets: Sequence[Target],
    *,
    passing: tuple[str, ...] = (),
    labels: tuple[str, ...] = (),
) -> CaseMade:
    return CaseMade(
        inputs=packed,
        outputs=tuple(replace(target.expected(), overlaps=target.overlaps) for target in targets),
        float64=all(target.float64 for target in targets),
        passing=passing,
        state=tuple(target.entry for target in targets if target.entry is not None),
        labels=labels,
    )


def unpacked(described: Values, file: int) -> list[Any]:
    """Inputs as they lie in a memory file, here."""
    return values.unpack(described, values.MappedFile(file, described.size))


def _written(targets: list[Target], index: int, file: int) -> Answer:
    """What a candidate wrote as output ``index``, and what is right."""
    step = step_for(math.prod(targets[index].shape))
    with written(file, _end_of(targets)) as outputs:
        got, oracle = targets[index].written(outputs, _end_of(targets[:index]), step)
    return Answer(got, oracle, targets[index].dtype, step)


def _all_written(targets: Sequence[Target], file: Written) -> list[torch.Tensor]:
    ends = itertools.accumulate(targets, lambda end, target: target.after(end), initial=0)
    return [target.whole(file, begin) for target, begin in zip(targets, ends, strict=False)]


def _is_reordered(targets: list[Target], index: int, file: int, inputs: list[Any]) -> bool:
    target = targets[index]
    with written(file, _end_of(targets)) as outputs:
        got = target.whole(outputs, _end_of(targets[:index]))
    answers = [other.right for other in targets if other.kind == "tensor" and other.floating and not other.is_complex]
    indexed = [tensor.to(got.device) for tensor in (*floating(inputs), *answers)]
    return names_equal_values(got, target.right, indexed)


def _end_of(targets: Sequence[Target]) -> int:
    """Where the last of them ends in a file."""
    position = 0
    for target in targets:
        position = target.after(position)
    return position


def _share(result: Compared) -> float:
    return result.error / result.bound if result.bound else 0.0
