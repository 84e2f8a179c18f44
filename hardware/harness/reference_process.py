"""The supervisor's side of the reference: one warm process for a problem, cases made once, restarted if it dies."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ...schemas import HarnessError, Problem, ProblemFacts, ReferenceDied, sha256
from ..machine.lease import Share
from ..processes import wire
from ..processes.worker import Worker, WorkerDied
from .deaths import ended_in_words
from .inputs import held_out
from .inputs.case import Case, Planned
from .inputs.held_out import MOST_DISCLOSED, MOST_DISCLOSED_BYTES
from .inputs.sizes import DIFFERENTIATED_BYTES, LARGE_SEEDS, MAIN_SEEDS, OTHER_SEEDS
from .inputs.variants import DRAFTS, GRADIENTS, NORMAL, SMALL_BYTES, instead_of, planned, shows_undecided
from .launcher import Launcher
from .messages.batch import Draw, Drawn
from .messages.commands import CaseMade, Compare, Compared, Explain, Explained, MakeCase, Open, Opened, Output, Values
from .messages.state import INPUT
from .reference_commands import ask_reference, open_command
from .timed_shape import TimedShape

T = TypeVar("T")
TRIES = 3


class ReferenceProcess:
    """The problem's reference process and its cases, kept for the session."""

    def __init__(self, launcher: Launcher, problem: Problem, secret: str, facts: ProblemFacts | None = None) -> None:
        """``facts`` of the problem say with which weights, and on which inputs beside its own, it decides."""
        self._launcher = launcher
        self._weight_exponents = facts.weight_exponents if facts else {}
        self._is_undecided = facts is not None and shows_undecided(kind.name for kind in facts.input_kinds)
        self._problem = problem
        self._secret = secret
        self._worker: Worker | None = None
        self._died: ReferenceDied | None = None
        """Why no further process is started."""
        self._guard = asyncio.Lock()
        self._cases: dict[int, Case] = {}
        self._oracles: set[int] = set()
        """Cases whose oracle the present process holds."""
        self._plan: list[Planned] = []
        """Every case by number: the problem's own, one of every timed shape for after the timing, then the derived."""
        self._own = 0
        """How many of them are on the problem's own inputs, before those for after the timing."""
        self._finals: dict[str, int] = {}
        """Numbers of the cases for after the timing, by timed shape."""
        self._timed: dict[str, TimedShape] = {}
        self._derived: list[int] = []
        self._in_a_row: list[int] = []
        self._sizes: dict[str, dict[str, int]] = {}
        """The problem's sizes by shape, where it has some."""
        self._further: dict[tuple[str, str], list[int]] = {}
        """Other draws of a derived case, by shape and variant: made when the first candidate needs them."""
        self._held_out: list[Case] | None = None
        self._disclosed = 0
        self._gradients: dict[str, int] = {}
        """Numbers of the cases of gradients by shape, once they are planned."""
        self._drafts: list[int] = []
        """Numbers of the cases for drafts, once they are planned."""
        self._making = asyncio.Lock()
        self.setup: Values | None = None
        self.setup_file: int | None = None
        self.large: bool | None = None
        """Whether the memory holds one candidate at a time; None until :meth:`prepare` has found out."""
        self.backward = self.finite_inputs = False
        """Whether the problem asks for the backward pass, and says that inputs are finite; known once it is open."""
        self.roles: dict[str, str] = {}
        """Of the module's parameters and buffers; known likewise."""

    @property
    def has_scaled_weights(self) -> bool:
        """Whether the reference's weights are others than its constructor makes."""
        return bool(self._weight_exponents)

    @property
    def memory_bytes(self) -> int:
        """Memory of the machine."""
        return self._launcher.reference_memory

    def timed(self, shape: str = "") -> TimedShape:
        """What is timed at ``shape``; at the first timed shape if it names none."""
        return self._timed.setdefault(shape, TimedShape(self, shape))

    @property
    def command(self) -> Open:
        """How any child opens this problem."""
        return open_command(self._problem, self.seed("weights"), self._launcher.pool_name, self._weight_exponents)

    async def close(self) -> None:
        """End the process and forget the cases."""
        await self.make_room()
        # The system frees half a gigabyte of input sets within the call that closes their file.
        await asyncio.to_thread(self._forget)

    async def make_room(self) -> None:
        """End the process, which keeps what is expected of its cases; the next question starts another one."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.kill()

    async def shapes(self) -> list[str]:
        """Names of the problem's shapes, the timed ones first."""
        await self._ready()
        return list(dict.fromkeys(case.shape for case in self._plan[: self._own]))

    async def timed_shapes(self) -> list[str]:
        """Names of the timed ones."""
        await self._ready()
        return list(self._finals)

    async def cases_of(self, shape: str, share: Share | None = None) -> list[Case]:
        """The cases of ``shape`` on the problem's own inputs that every candidate is checked on.

        Where ``share`` is given, whoever waits for the machine has it between two of them.
        """
        await self._ready()
        first, *more = [number for number, case in enumerate(self._plan[: self._own]) if case.shape == shape]
        cases = [await self.case(first)]
        if cases[0].is_large:
            # Problem validation says so in the facts (sizes.left_out).
            more = more[: LARGE_SEEDS - 1]
        for number in more:
            if share is not None:
                await share.make_way()
            cases.append(await self.case(number))
        return cases

    async def derived_cases(self, share: Share | None = None) -> AsyncIterator[Case]:
        """The cases on inputs made from the problem's own, in turn, but those on which the reference means nothing.

        Where ``share`` is given, whoever waits for the machine has it between two of them.
        """
        shapes = await self.shapes()
        own = {shape: await self.cases_of(shape, share) for shape in shapes}
        if not self._derived:
            decided = [case for cases in own.values() for case in cases] + await self.cases_in_a_row()
            passing = set.intersection(*(set(case.passing) for case in decided))
            sizes = {shape: cases[0].inputs.size for shape, cases in own.items()}
            timed = await self.timed_shapes()
            calls = {shape: own[shape][0].inputs.size + own[shape][0].returned_bytes for shape in timed}
            for shape, variant in planned(sizes, calls, decided=not passing and not self._is_undecided):
                self._add(shape, variant)
        for number in self._derived:
            if share is not None:
                await share.make_way()
            case = await self.case(number)
            if not case.refused:
                yield case
            for variant in instead_of(case.kind) if case.refused else ():
                self._add(case.shape, variant)

    async def further_draw(self, case: Case, index: int) -> Case | None:
        """Draw ``index`` beside that of the derived ``case``, the same for every candidate; None if it is refused."""
        numbers = self._further.setdefault((case.shape, case.kind), [])
        while len(numbers) <= index:
            numbers.append(self._put(case.shape, case.kind, {}))
        further_case = await self.case(numbers[index])
        return None if further_case.refused else further_case

    def _add(self, shape: str, variant: str) -> None:
        planned_cases = (self._plan[number] for number in self._derived)
        if not any((plan.shape, plan.kind) == (shape, variant) for plan in planned_cases):
            self._derived.append(self._put(shape, variant, {}))

    def _put(self, shape: str, variant: str, sizes: dict[str, int], earlier: tuple[int, ...] = ()) -> int:
        return self.plan(Planned(shape, self.seed(f"case {len(self._plan)}"), variant, sizes, earlier))

    def plan(self, case: Planned) -> int:
        """Its number; it is made when it is asked for."""
        self._plan.append(case)
        return len(self._plan) - 1

    async def cases_in_a_row(self) -> list[Case]:
        """Cases of the timed shape each of which finds the state that the one before it left; none without state."""
        main = (await self.cases_of((await self.shapes())[0]))[0]
        if all(entry.kind == INPUT for entry in main.state):
            return []
        if not self._in_a_row:
            calls = LARGE_SEEDS if main.is_large else MAIN_SEEDS
            for _ in range(calls):
                earlier = tuple(self._plan[number].seed for number in self._in_a_row)
                self._in_a_row.append(self._put(main.shape, NORMAL, {}, earlier))
        return [await self.case(number) for number in self._in_a_row]

    async def held_out_cases(self) -> list[Case]:
        """Cases at shapes that the problem does not name, where it allows any; the same until :meth:`disclose`."""
        shapes = await self.shapes()
        sizes = {shape: (await self.cases_of(shape))[0].inputs.size for shape in shapes}
        async with self._making:
            if self._held_out is None:
                timed = {shape: (await self.cases_of(shape))[0].is_large for shape in await self.timed_shapes()}
                bases = held_out.bases(sizes, timed)
                cases = [await self._held_out_from(base, variants, sizes[base]) for base, variants in bases]
                self._held_out = [case for case in cases if case is not None]
            return self._held_out

    async def _held_out_from(self, base: str, variants: Sequence[str], size: int) -> Case | None:
        for variant in variants:
            seed = self.seed(f"{variant} from {base} after {self._disclosed}")
            sizes = held_out.made_up(self._sizes, base, variant, size, seed)
            if sizes is not None:
                case = await self.case(self._put(base, variant, sizes))
                if not case.refused:
                    return case
        return None

    async def draft_cases(self) -> list[Case]:
        """Cases at the smallest shape, for drafts alone: nobody is judged on them. Small ones are changed, too."""
        if not self._drafts:
            sizes = {shape: (await self.cases_of(shape))[0].inputs.size for shape in await self.shapes()}
            smallest = min(sizes, key=lambda shape: sizes[shape])
            kinds = DRAFTS if sizes[smallest] <= SMALL_BYTES else DRAFTS[:1]
            self._drafts = [self._put(smallest, kind, {}) for kind in kinds]
        return [case for number in self._drafts if not (case := await self.case(number)).refused]

    async def gradient_cases(self) -> AsyncIterator[Case]:
        """The cases of gradients: at the smallest shape and at each timed one, each made when it is asked for.

        Those are left out where the reference has no gradients, or they cannot be judged.
        """
        sizes = {shape: (await self.cases_of(shape))[0].inputs.size for shape in await self.shapes()}
        smallest = min(sizes, key=lambda shape: sizes[shape])
        for shape in dict.fromkeys((smallest, *await self.timed_shapes())):
            if sizes[shape] > DIFFERENTIATED_BYTES:
                continue
            if shape not in self._gradients:
                self._gradients[shape] = self._put(shape, GRADIENTS, {})
            case = await self.case(self._gradients[shape])
            if not case.refused:
                yield case

    def disclose(self, case: Case) -> None:
        """A verdict names the made-up shape of ``case``: the next candidates meet others."""
        current = self._held_out or []
        if self._disclosed < MOST_DISCLOSED and any(current_case is case for current_case in current):
            # What is replaced stays in memory.
            size = sum(current_case.inputs.size + current_case.returned_bytes for current_case in current)
            self._disclosed += max(1, MOST_DISCLOSED * size // MOST_DISCLOSED_BYTES)
            self._held_out = None

    def seed(self, purpose: str) -> int:
        """48 bits that nobody outside this process can guess; the same again after a restart."""
        return int(sha256(f"{self._secret}\0{self._problem.sha256}\0{purpose}")[:12], 16)

    async def draw(self, command: Draw) -> tuple[Drawn, list[int]]:
        """Have the reference draw input sets; fails as :meth:`case` does."""
        return await self._healed(lambda worker: ask_reference(worker, command, Drawn))

    async def prepare(self, share: Share | None = None) -> None:
        """Find out whether inputs and outputs are large at any shape. If so, all cases are made now, making way.

        What float64 needs for one of them while it is made, a candidate needs as well.
        """
        large = any([(await self.cases_of(shape))[0].is_large for shape in await self.shapes()])
        if large:
            for shape in await self.timed_shapes():
                await self.final_case_of(shape)
            await self.cases_in_a_row()
            async for _ in self.derived_cases(share):
                pass
            await self.held_out_cases()
            async for _ in self.gradient_cases():
                pass
        self.large = large

    async def final_case_of(self, shape: str) -> Case:
        """A case of a timed shape that candidates meet only after they were timed."""
        await self._ready()
        return await self.case(self._finals[shape])

    async def case(self, number: int) -> Case:
        """One case; drawn, and its oracle computed, the first time.

        Raises:
            HarnessError: the reference cannot do it, although it was validated.
        """
        return await self._healed(lambda worker: self._ensure_case(worker, number))

    async def compare(self, case: Case, outputs: tuple[Output, ...], file: int, **how: Any) -> Compared:
        """Compare what a candidate wrote into ``file`` with the oracle of ``case``, as :class:`.Compare` says.

        Raises:
            HarnessError: the reference cannot do it.
        """

        async def ask(worker: Worker) -> Compared:
            await self._ensure_case(worker, case.number)
            command = Compare(case=case.number, outputs=outputs, **how)
            return (await ask_reference(worker, command, Compared, [file]))[0]

        return await self._healed(ask)

    async def explain(self, case: Case, output: int, file: int) -> Explained:
        """What a wrong output in ``file`` looks like."""

        async def ask(worker: Worker) -> Explained:
            await self._ensure_case(worker, case.number)
            command = Explain(case=case.number, output=output, inputs=case.inputs)
            return (await ask_reference(worker, command, Explained, [file, case.file]))[0]

        return await self._healed(ask)

    async def _healed(self, ask: Callable[[Worker], Awaitable[T]]) -> T:
        """Do ``ask`` with a living process, with another one if that dies; if that dies, too, it is a ReferenceDied."""
        for _ in range(0 if self._died else TRIES):
            worker = await self._ready()
            try:
                return await ask(worker)
            except WorkerDied as error:
                how = f"its process {ended_in_words(error)}, {TRIES} times"
                died = ReferenceDied(f"the reference died when it was computed: {how}\n{worker.output}".strip())
            except ReferenceDied as error:
                self._died = error
                break
        self._died = self._died or died
        raise self._died

    async def _ensure_case(self, worker: Worker, number: int) -> Case:
        """The case, made in ``worker`` if that process does not hold its oracle yet."""
        async with self._guard:
            if number in self._oracles and worker is self._worker:
                return self._cases[number]
            want = self._plan[number]
            again = number in self._cases
            base = self._base_of(want)
            command = MakeCase(
                case=number,
                shape=want.shape,
                seed=want.seed,
                kind=want.kind,
                again=again,
                base=base.inputs if base else None,
                sizes=want.sizes,
                earlier=want.earlier,
            )
            answer, files = await ask_reference(worker, command, CaseMade, [base.file] if base else [])
            self._oracles.add(number)
            if again:
                # A process that was restarted draws the same inputs: those that are out already stay in use.
                wire.close_all(files)
            else:
                file = -1 if answer.refused else files[0]
                shape = held_out.in_words(want.sizes) or want.shape
                self._cases[number] = want.made(number, shape, answer, file)
            return self._cases[number]

    def _base_of(self, want: Planned) -> Case | None:
        """What a derived case is made of where that is large: drawing it once more would take seconds."""
        if want.kind in (NORMAL, GRADIENTS) or want.sizes:
            return None
        first = next((case for case in self._cases.values() if (case.shape, case.kind) == (want.shape, NORMAL)), None)
        return first if first is not None and first.is_large else None

    async def _ready(self) -> Worker:
        async with self._guard:
            if self._worker is None or not self._worker.alive:
                await self.make_room()
                self._oracles.clear()
                worker = await self._launcher.spawn("reference", memory_bytes=self._launcher.reference_memory)
                try:
                    await self._open(worker)
                except HarnessError:
                    await worker.kill()
                    raise
                self._worker = worker
            return self._worker

    async def _open(self, worker: Worker) -> None:
        try:
            opened, descriptors = await ask_reference(worker, self.command, Opened)
        except WorkerDied as error:
            raise HarnessError(f"the reference of {self._problem.name} {error}: {worker.output}") from error
        if self.setup is None and descriptors:
            self.setup, self.setup_file = opened.setup, descriptors[0]
        else:
            wire.close_all(descriptors)
        timed, others = opened.shapes[: opened.timed], opened.shapes[opened.timed :]
        shapes = [shape for shape in timed for _ in range(MAIN_SEEDS)]
        shapes += [shape for shape in others for _ in range(OTHER_SEEDS)]
        self.backward, self.finite_inputs = opened.backward, opened.finite_inputs
        self._sizes, self.roles = opened.sizes, opened.roles
        if not self._plan:
            self._own = len(shapes)
            self._finals = {shape: self._own + place for place, shape in enumerate(timed)}
            for number, shape in enumerate([*shapes, *timed]):
                self._plan.append(Planned(shape, self.seed(f"case {number}")))

    def _forget(self) -> None:
        for timed in self._timed.values():
            timed.close()
        wire.close_all([case.file for case in self._cases.values() if not case.refused])
        self._cases.clear()
        if self.setup_file is not None:
            os.close(self.setup_file)
            self.setup_file = None
