"""Draws the pool of input sets of a timed shape, once; and again after a verdict revealed one of them."""

import asyncio
import os
import random
from typing import TYPE_CHECKING

from .inputs.case import Case, Planned
from .inputs.input_sets import HARDER_OF, LEAST_SETS, InputSets, fits, judged_sets, sets_for, warm_sets, write_inputs
from .inputs.sizes import bytes_of
from .messages.batch import Draw, Drawn
from .messages.commands import Values
from .messages.state import INPUT

if TYPE_CHECKING:
    from .timed_shape import TimedShape

MOST_RENEWED = 16
"""Times that a pool is drawn again: the cases of each stay in memory for the session."""


class InputSetPool:
    """One timed shape's pool, if its input sets fit into one."""

    def __init__(self, timed: "TimedShape", memory_bytes: int) -> None:
        """Nothing is drawn yet; ``memory_bytes`` is the machine's."""
        self._timed = timed
        self._cases = timed.host
        self._memory_bytes = memory_bytes
        self._supply: InputSets | None = None
        self._set_count = self._renewed = 0
        """How many sets the pool should have, and how often another one was drawn."""
        self._making = asyncio.Lock()

    async def get(self, count: int = 0) -> InputSets | None:
        """The pool, of about ``count`` sets the first time.

        None where input sets are too large for a pool, or too few alike for an accelerator.

        Raises:
            HarnessError: the reference cannot draw them.
        """
        main = (await self._timed.cases())[0]
        async with self._making:
            self._set_count = count or self._set_count
            if self._supply is None and not main.is_large:
                self._supply = await self._drawn(main)
            return self._supply

    def renew(self) -> None:
        """A verdict told something of the pool: the next candidates get input sets that nobody has seen."""
        if self._supply is not None and self._renewed < MOST_RENEWED:
            self._renewed += 1
            supply, self._supply = self._supply, None
            # Hundreds of megabytes are freed with it.
            asyncio.get_running_loop().run_in_executor(None, os.close, supply.file)

    def close(self) -> None:
        """Forget the pool."""
        supply, self._supply = self._supply, None
        if supply is not None:
            os.close(supply.file)

    async def _drawn(self, main: Case) -> InputSets | None:
        sets = sets_for(main.inputs.size, self._set_count, self._memory_bytes)
        if not sets:
            return None
        seeds = tuple(self._cases.seed(f"set {number} of {main.shape} after {self._renewed}") for number in range(sets))
        drawn, (file,) = await self._cases.draw(Draw(shape=main.shape, seeds=seeds))
        if len(drawn.seeds) < min(sets, LEAST_SETS):
            os.close(file)
            return None
        outputs = sum(bytes_of(output.shape, output.dtype) for output in main.outputs if output.dtype)
        inputs = list(drawn.inputs)
        judged = judged_sets(len(drawn.seeds), drawn.stride, outputs)
        cases = await self._judged(main, drawn, inputs, file, judged)
        are_written = any(entry.kind == INPUT for entry in await self._timed.state())
        return InputSets(file, tuple(inputs), drawn.stride, len(drawn.seeds), outputs, cases, are_written)

    async def _judged(self, main: Case, drawn: Drawn, inputs: list[Values], file: int, judged: int) -> dict[int, int]:
        """Numbers of the cases that know the right answers, by set: of ``judged`` sets, and of harder inputs.

        ``inputs`` are what the sets are like; those of harder inputs take the place of others.
        """
        count = len(drawn.seeds)
        numbers = random.SystemRandom().sample(range(warm_sets(count), count), count - warm_sets(count))
        cases = {number: self._cases.plan(Planned(main.shape, drawn.seeds[number])) for number in numbers[:judged]}
        # What takes another path while it is timed meets harder inputs there, too.
        harder = [case async for case in self._cases.derived_cases() if fits(case, main.shape, drawn)]
        for number, case in zip(numbers[judged : judged + count // HARDER_OF], harder, strict=False):
            if len(inputs) > 1:
                inputs[number] = case.inputs
            write_inputs(case, inputs[number % len(inputs)], file, number * drawn.stride)
            cases[number] = case.number
        return cases
