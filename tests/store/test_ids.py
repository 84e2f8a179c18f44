import random
from collections.abc import Iterable

import duckdb
import numpy as np
import pytest

from kernelswarm.store import ids as ids_module
from kernelswarm.store.chain import fingerprint
from kernelswarm.store.ids import IdIndex


def marked(ids: Iterable[str]) -> dict[str, int]:
    return {name: fingerprint(name) for name in ids}


@pytest.mark.parametrize("seed", range(20))
def test_what_was_added_is_suspected_and_nothing_else(seed: int) -> None:
    draw = random.Random(seed)
    groups = [{f"id{draw.randrange(200)}" for _ in range(draw.randrange(60))} for _ in range(5)]
    first, later, queried = groups[0], groups[1:4], groups[4]
    index = IdIndex(np.array([fingerprint(name) for name in first], dtype=np.uint64))
    for some in later:
        index.add(map(fingerprint, some))
    added = first.union(*later)
    assert index.suspects(marked(queried | added)) == added
    assert index.suspects({}) == set()


def test_merging_loses_nothing(monkeypatch) -> None:
    monkeypatch.setattr(ids_module, "_MERGE_AT", 3)
    index = IdIndex(np.array([], dtype=np.uint64))
    names = [f"id{number}" for number in range(10)]
    for name in names:
        index.add([fingerprint(name)])
    assert index.suspects(marked([*names, "other"])) == set(names)
    assert len(index) == 10


@pytest.mark.parametrize("name", ["", "a", "0f" * 16, "größer", "\U0001f4a1", "with \0 in it", "x" * 1000])
def test_duckdb_computes_the_same_fingerprint(name: str) -> None:
    with duckdb.connect() as con:
        (number,) = con.execute("SELECT md5_number_lower(?)", [name]).fetchone()
    assert number == fingerprint(name)
