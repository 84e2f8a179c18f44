"""How many input sets a process's calls are recorded on: so many that no set is still in a cache. No torch."""

import asyncio
import math
import os
import random
from collections.abc import Sequence

from .inputs.case import Case
from .inputs.input_sets import InputSets
from .inputs.sizes import MAIN_SEEDS, bytes_of
from .messages.batch import Lay
from .messages.state import StateEntry

CACHES = 3
"""All input sets and outputs of a recording take so many times the last-level cache."""
MOST_CALLS = 512
"""Of one recording. Smaller inputs than this leaves out of the cache stay there."""
WEIGHTS_BYTES = 1 << 20
"""A module with larger ones has the cache flushed before each recorded call: they would stay there."""
FLUSHED_CALLS = 16
"""Of a recording at most, where the cache is flushed before each: that leaves no input set in it either. Three graphs
of 151 calls of ResNet18 took each of three processes 3.6 to 3.9 s to record, at once (H200)."""
MOST_JUDGED = 8
"""Of the input sets of a recording, at least so many have a right answer that is known, if there are as many."""

_chance = random.SystemRandom()


def calls_in_a_recording(case: Case, cache_bytes: int, *, flush: bool = False) -> int:
    """How many calls like ``case``, each on a set of its own, are recorded; ``flush``: the cache before each."""
    outputs = sum(bytes_of(output.shape, output.dtype) for output in case.outputs if output.dtype)
    most = FLUSHED_CALLS if flush else MOST_CALLS
    return max(MAIN_SEEDS, min(most, math.ceil(CACHES * cache_bytes / max(1, case.inputs.size + outputs))))


def halves(supply: InputSets, calls: int) -> tuple[list[int], list[int]]:
    """Two times ``calls`` sets of the pool, drawn by chance; with right answers among both."""
    judged = _chance.sample(sorted(supply.cases), min(len(supply.cases), 2 * min(MOST_JUDGED, calls)))
    others = _chance.sample(sorted(set(range(supply.sets)) - set(judged)), 2 * calls - len(judged))
    parts = judged[::2] + others[: calls - len(judged[::2])], judged[1::2] + others[calls - len(judged[::2]) :]
    for part in parts:
        _chance.shuffle(part)
    return parts


async def laid(
    supply: InputSets,
    numbers: Sequence[int],
    state: tuple[StateEntry, ...] = (),
    *,
    aliased: bool = False,
    later: bool = False,
) -> tuple[Lay, int]:
    """The message for sets of the pool, and a memory file that holds them (the caller closes it)."""
    assert supply.are_alike
    file = await asyncio.to_thread(_copied, supply, numbers)
    message = Lay(
        inputs=supply.inputs, stride=supply.stride, sets=len(numbers), state=state, aliased=aliased, later=later
    )
    return message, file


def _copied(supply: InputSets, numbers: Sequence[int]) -> int:
    file = os.memfd_create("sets", os.MFD_CLOEXEC)
    for index, number in enumerate(numbers):
        _copy(supply.file, number * supply.stride, file, index * supply.stride, supply.stride)
    return file


def _copy(source: int, begin: int, target: int, position: int, size: int) -> None:
    os.ftruncate(target, position + size)
    done = 0
    while done < size:
        data = os.pread(source, min(size - done, 1 << 24), begin + done)
        if not data:
            return
        done += os.pwrite(target, data, position + done)
