"""Verifies that a candidate is right and does not cheat. The supervisor's side."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from ...schemas import CONTIGUOUS, EQUAL_VALUES, FINITE, CaseResult, Verdict
from ..machine.lease import Share
from ..machine.slices import make_way
from ..processes import sealing, wire
from ..processes.messages import Done
from . import judgement, redraws, state_verification
from .gradient_verification import check_gradients
from .inputs.case import Case
from .inputs.variants import NORMAL, in_words
from .judgement import Judged, explain_numbers, judged, wrong
from .limits import further_limit, way_out
from .messages.commands import Compared, Dump, Dumped, Explained, Output, Ran, Release, Run
from .messages.state import CheckState, StateChecked
from .reference_process import ReferenceProcess
from .state_verification import check_form, check_unchanged
from .untrusted import Taken, UntrustedCandidate

_TURNS = (0, redraws.DRAWS + 1)
"""Slots of calls each of which is compared while the next one runs; further draws take those between."""
_DIAGNOSIS_SLOT = 2000
"""Slot of a call that only explains what is wrong."""
EARLY = " (a kernel on a stream of its own must wait for the current one: inputs are written just before the call)"
"""What to tell somebody whose kernel is wrong on an accelerator only when it is timed."""
LATE_SECONDS = 0.1
"""A wrong output is looked at once more after so long: has something written to it behind our back?"""


@dataclass(frozen=True)
class _Comparing:
    """A call whose answer was taken, and is being compared."""

    slot: int
    case: Case
    outputs: tuple[Output, ...]
    result: "asyncio.Task[Compared]"


@dataclass
class Verification:
    """One candidate on every case of a problem."""

    host: ReferenceProcess
    untrusted: UntrustedCandidate
    share: Share | None = None
    """Of the machine, which others have in between."""
    results: list[CaseResult] = field(default_factory=list)
    declined: list[str] = field(default_factory=list)
    """What it raised at shapes that the problem does not name."""
    gradients: str = ""
    """Who differentiates it (:mod:`.gradient_verification`)."""

    async def check_everything(self) -> None:
        """All shapes on the problem's own inputs, timed ones first, the harder inputs made from these, other shapes.

        Raises:
            Judged: something is wrong.
        """
        timed = await self.host.timed_shapes()
        for shape in await self.host.shapes():
            cases = await self.host.cases_of(shape)
            await self._check_shape(cases, again=shape in timed and not cases[0].is_large)
        await self._check_calls_in_a_row()
        await self._check_each(self.host.derived_cases(), lambda case: f"on {in_words(case.kind)} inputs")
        for case in await self.host.held_out_cases():
            await self._check_elsewhere(case)
        await self.check_unchanged_state((await self.host.timed().cases())[0])
        self.gradients = await check_gradients(self)
        await self.untrusted.ask(Release(), Done)

    async def _check_shape(self, cases: list[Case], *, again: bool) -> None:
        held: list[tuple[Case, tuple[Output, ...]]] = []
        for index, case in enumerate(cases):
            # Every second case goes into the tensors of the one before: same address, other contents. The rest comes
            # at fresh addresses, the first of them with poisoned memory.
            reuse = index - 1 if index % 2 and not (case.aliased or case.passes_on) else -1
            command = run_on(case, index, reuse=reuse, poison="" if index % 2 else "torch")
            outputs = await self.run(command, case, [] if case.aliased else held)
            held.append((case, outputs))
            if case.aliased:
                await self._settle(held, cases, first=index)
            elif index % 2 or index == len(cases) - 1:
                # Both outputs are held while the second call runs; only then is the first one read.
                await self._settle(held, cases, first=index - 1 if index % 2 else index)
                await self._make_way()
        if again:
            await self._check_repeat(cases[-1], len(cases) - 1)
        await self.untrusted.ask(Release(), Done)

    async def _check_calls_in_a_row(self) -> None:
        """Calls each of which finds what the one before it left."""
        cases = await self.host.cases_in_a_row()
        for index, case in enumerate(cases):
            outputs = await self.run(run_on(case, index, poison="torch"), case, [])
            result = await self.compare(index, case, outputs)
            if not result.ok:
                raise await self.explain(index, case, outputs, result, [])
            await self.check_unchanged_state(case)
        await self.untrusted.ask(Release(), Done)

    async def check_unchanged_state(self, case: Case, when: str = "") -> None:
        """What the reference leaves alone must be as it was; ``case`` is the call before.

        Raises:
            Judged: it is not.
        """
        if self.host.setup is not None:
            checked, _ = await self.untrusted.ask(CheckState(), StateChecked, case=case)
            check_unchanged(checked, case, when)

    async def _make_way(self, comparing: _Comparing | None = None) -> None:
        """Whoever waits for the machine has it, once nothing is being compared; the candidate stands still."""
        if self.share is not None and self.share.lease.is_wanted():
            if comparing is not None:
                await asyncio.wait({comparing.result})
            await make_way(self.share, self.untrusted.worker.send, is_idle=True)

    async def _check_each(self, cases: AsyncIterable[Case], label: Callable[[Case], str]) -> None:
        """One call each beside those on the problem's own inputs at its own shapes; ``label`` says what is new in it.

        An answer is compared while the next call runs: the one waits for the reference, the other for the candidate.
        """
        last: _Comparing | None = None
        async with self._compared_in_the_end() as open_ones:
            slots = itertools.cycle(_TURNS)
            async for case in cases:
                await self._make_way(last)
                before, last = last, None
                try:
                    with self.labelled(case, label(case)):
                        slot = next(slots)
                        last = await self._comparing(slot, case, await self.call(case, slot))
                        open_ones.append(last)
                except Judged:
                    # What was wrong before counts.
                    if before is not None:
                        await self._decide(before, label(before.case))
                    raise
                if before is not None:
                    await self._decide(before, label(before.case))
            if last is not None:
                await self._decide(last, label(last.case))

    async def _decide(self, comparing: _Comparing, label: str) -> None:
        case = comparing.case
        with self.labelled(case, label) as words:
            draw, draws = await redraws.decided(
                await self._drawn(comparing), lambda slot: self._draw_further(slot, case)
            )
            if not draw.result.ok:
                words += [draws] if draws else []
                raise await self.explain(draw.slot, draw.case, draw.outputs, draw.result, [])

    @contextlib.contextmanager
    def labelled(self, case: Case, label: str) -> Iterator[list[str]]:
        """Have the evidence say on which inputs it was; more words may be added to the list."""
        words = [label]
        try:
            yield words
        except Judged as error:
            kind = "" if case.kind == NORMAL else case.kind
            words += way_out(case, error.evidence.expected)
            evidence = replace(error.evidence, message=f"{error.evidence.message} ({'; '.join(words)})", inputs=kind)
            raise Judged(error.verdict, evidence, limit=further_limit(case, self.untrusted.limits)) from None

    @contextlib.asynccontextmanager
    async def _compared_in_the_end(self) -> AsyncIterator[list[_Comparing]]:
        """Nothing of what is in the list is being compared afterwards. Who gave one up would end the reference.

        The candidate keeps the machine while it is asked: an answer may be compared meanwhile.
        """
        open_ones: list[_Comparing] = []
        share, self.untrusted.share = self.untrusted.share, None
        try:
            yield open_ones
        finally:
            self.untrusted.share = share
            await asyncio.gather(*(comparing.result for comparing in open_ones), return_exceptions=True)

    async def _comparing(self, slot: int, case: Case, outputs: tuple[Output, ...]) -> _Comparing:
        taken = await self.take(slot, case, outputs)
        return _Comparing(slot, case, outputs, asyncio.create_task(self._compared(taken)))

    async def _draw_further(self, slot: int, case: Case) -> redraws.Draw | None:
        further_case = await self.host.further_draw(case, slot - 1)
        if further_case is None:
            return None
        return await self._drawn(await self._comparing(slot, further_case, await self.call(further_case, slot)))

    async def _drawn(self, comparing: _Comparing) -> redraws.Draw:
        result = self._counted(comparing.case, await comparing.result)
        return redraws.Draw(comparing.slot, comparing.case, comparing.outputs, result)

    async def _check_elsewhere(self, case: Case) -> None:
        """One call at a shape that the problem does not name: the right answer, or an exception that says no."""
        try:
            unnamed = f"at {case.shape}, a shape that the problem does not name"
            await self._check_each(_all_of([case]), lambda _: unnamed)
        except Judged as error:
            if error.verdict is not Verdict.runtime_error:
                self.host.disclose(case)
                raise
            self.declined.append(error.evidence.message)
            # A device that failed says no to everything from then on: who only refused is as right as before.
            own = (await self.host.cases_of((await self.host.shapes())[-1]))[:1]
            refused = f"after it had refused {case.shape}, a shape that the problem does not name"
            await self._check_each(_all_of(own), lambda _: refused)

    async def call(self, case: Case, slot: int) -> tuple[Output, ...]:
        """One call on new inputs, as :meth:`run`; on contiguous copies where the candidate is limited to such."""
        command = replace(run_on(case, slot, poison="torch"), dense=CONTIGUOUS in self.untrusted.limits)
        return await self.run(command, case, [])

    async def run(self, command: Run, case: Case, held: list[tuple[Case, tuple[Output, ...]]]) -> tuple[Output, ...]:
        """One call, and everything that can be told from its answer alone.

        Raises:
            Judged: it failed, or outputs or inputs are not as they must be.
        """
        files = () if command.repeat else (case.file,)
        ran, _ = await self.untrusted.ask(command, Ran, files, case=case)
        if ran.touched:
            message = f"it changed what is not its own: {', '.join(ran.touched)}"
            raise judged(Verdict.tampering, message, case=case)
        returned = max(0, len(ran.outputs) - len(case.state))
        judgement.check_form(ran.outputs[:returned], case.outputs[: case.returned], case)
        check_form(ran.outputs, case)
        if ran.mutated >= 0:
            message = f"input tensor {ran.mutated} is not what it was before the call"
            raise judged(Verdict.input_mutated, message, case=case)
        for earlier, outputs in held:
            judgement.check_apart(ran.outputs, outputs, case, earlier.seed)
        return ran.outputs

    async def _settle(self, held: list[tuple[Case, tuple[Output, ...]]], cases: list[Case], first: int) -> None:
        async with self._compared_in_the_end() as open_ones:
            for slot in range(first, len(held)):
                open_ones.append(await self._comparing(slot, *held[slot]))
            for comparing in open_ones:
                case, result = comparing.case, self._counted(comparing.case, await comparing.result)
                if not result.ok:
                    others = [other for other in cases if other is not case and _form(other) == _form(case)]
                    raise await self.explain(comparing.slot, case, comparing.outputs, result, others)

    async def compare(self, slot: int, case: Case, outputs: tuple[Output, ...], *, allowance: float = 1.0) -> Compared:
        """Have the candidate write a slot's outputs, and the reference compare them; errors may be so many bounds.

        Raises:
            Judged: they are not what they were when they were handed over.
        """
        return await self.compare_taken(await self.take(slot, case, outputs), allowance=allowance)

    async def take(self, slot: int, case: Case, outputs: tuple[Output, ...]) -> Taken:
        """Have the candidate write a slot's outputs, to be compared later.

        Raises:
            Judged: they are not what they were when they were handed over.
        """
        _, files = await self._dump(slot, case)
        return Taken(case, outputs, files)

    async def compare_taken(self, taken: Taken, *, allowance: float = 1.0) -> Compared:
        """Have the reference compare what was taken, and let go of it."""
        return self._counted(taken.case, await self._compared(taken, allowance))

    async def _compared(self, taken: Taken, allowance: float = 1.0) -> Compared:
        try:
            return await self.host.compare(
                taken.case,
                taken.outputs,
                taken.files[0],
                allowance=allowance,
                where_finite=FINITE in self.untrusted.limits,
            )
        finally:
            taken.close()

    def _counted(self, case: Case, result: Compared) -> Compared:
        """The result, which is one of the report's from now on; the last of a wrong candidate is what is wrong."""
        self.results.append(
            CaseResult(
                shape=case.shape,
                seed=case.seed,
                error=result.error,
                reference_error=result.reference_error,
                bound=result.bound,
                inputs=case.kind,
                published=result.published,
            )
        )
        return result

    async def explain(
        self, slot: int, case: Case, outputs: tuple[Output, ...], result: Compared, others: list[Case]
    ) -> Judged:
        """Wrong; but in which way? ``others``: cases whose answer it may be instead."""
        if result.output >= case.returned:
            return state_verification.explained(result, case)
        numbers = explain_numbers(result, case.labels)
        await asyncio.sleep(LATE_SECONDS)
        _, files = await self._dump(slot, case)
        try:
            if (await self.host.compare(case, outputs, files[0])).ok:
                message = f"it is right only {LATE_SECONDS:g} s after the call had returned: {numbers}"
                return wrong(Verdict.hidden_work, message, case, result)
            for other in others:
                if (await self.host.compare(other, outputs, files[0])).ok:
                    message = "it returns the answer to other inputs than it was called with (a cached answer)"
                    return wrong(Verdict.stale_output, message, case, result)
            if slot % 2 == 0 and result.unwritten and await self._is_unwritten(case, result):
                message = f"{result.unwritten} elements of output {result.output} were never written"
                return wrong(Verdict.incomplete_output, message, case, result)
            # Lower precisions are computed from the start alone.
            seen = Explained() if case.earlier else await self.host.explain(case, result.output, files[0])
        finally:
            wire.close_all(files)
        if seen.precision:
            return wrong(Verdict.lower_precision, f"{seen.precision}; {numbers}", case, result)
        if seen.is_reordered:
            return wrong(Verdict.wrong_numbers, f"{EQUAL_VALUES}; {numbers}", case, result)
        message = numbers + (case.when if case.earlier else "")
        return wrong(Verdict.wrong_numbers, message, case, result)

    async def _is_unwritten(self, case: Case, result: Compared) -> bool:
        """Whether what looks like fresh memory is that: another pattern must then show, unless it is malloc's."""
        outputs = await self.run(run_on(case, _DIAGNOSIS_SLOT, poison="malloc"), case, [])
        _, files = await self._dump(_DIAGNOSIS_SLOT, case)
        try:
            again = await self.host.compare(case, outputs, files[0])
        finally:
            wire.close_all(files)
        return again.got != result.got or again.got not in judgement.FILLS

    async def _dump(self, slot: int, case: Case) -> tuple[Dumped, list[int]]:
        dumped, files = await self.untrusted.ask(Dump(slot=slot), Dumped, case=case)
        if dumped.changed >= 0:
            wire.close_all(files)
            raise await self._changed(case, dumped.changed)
        if any(map(sealing.may_change, files)):
            wire.close_all(files)
            message = "it could still change what it handed over, which is compared while it runs"
            raise judged(Verdict.tampering, message, case=case)
        return dumped, files

    async def _changed(self, case: Case, output: int) -> Judged:
        """An output is not what it was. Whether a later call did that, or work that went on, shows a call alone."""
        try:
            await self.run(run_on(case, _DIAGNOSIS_SLOT), case, [])
            await asyncio.sleep(LATE_SECONDS)
            dumped, files = await self.untrusted.ask(Dump(slot=_DIAGNOSIS_SLOT), Dumped, case=case)
            wire.close_all(files)
            works_on = dumped.changed >= 0
        except Judged:
            works_on = False
        verdict, message = Verdict.stale_output, f"output {output} changed after it was handed over"
        if works_on:
            verdict, message = Verdict.hidden_work, f"{message}, with no other call in between: the work went on"
        return judged(verdict, message, case=case, output=output)

    async def _check_repeat(self, case: Case, slot: int) -> None:
        outputs = await self.run(run_on(case, slot, repeat=True), case, [])
        result = await self.compare(slot, case, outputs)
        self.results.pop()
        if not result.ok and result.output >= case.returned:
            raise state_verification.explained(result, case, " after a second call on the same inputs")
        if not result.ok:
            numbers = explain_numbers(result, case.labels)
            message = f"the second call on the same inputs is wrong, the first was not; {numbers}"
            raise wrong(Verdict.not_deterministic, message, case, result)


def run_on(case: Case, slot: int, *, reuse: int = -1, repeat: bool = False, poison: str = "") -> Run:
    """The command to call a candidate on ``case``."""
    return Run(
        slot=slot,
        inputs=case.inputs,
        reuse=reuse,
        repeat=repeat,
        poison=poison,
        state=case.state,
        continued=bool(case.earlier),
    )


def _form(case: Case) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(expected.kind, expected.dtype, expected.shape) for expected in case.outputs]


async def _all_of(cases: Iterable[Case]) -> AsyncIterator[Case]:
    for case in cases:
        yield case
