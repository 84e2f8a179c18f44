import duckdb
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernelswarm.store import ids as ids_module
from kernelswarm.store.ids import IdIndex, fingerprint


@settings(max_examples=50, deadline=None)
@given(st.sets(st.text()), st.lists(st.sets(st.text()), max_size=4), st.sets(st.text()))
def test_what_was_added_is_suspected_and_nothing_else(first: set, later: list, asked: set) -> None:
    index = IdIndex(np.array([fingerprint(one) for one in first], dtype=np.uint64))
    for some in later:
        index.add(some)
    known = first.union(*later)
    assert index.suspects(asked | known) == known
    assert index.suspects(set()) == set()


def test_merging_loses_nothing(monkeypatch) -> None:
    monkeypatch.setattr(ids_module, "_MERGE_AT", 3)
    index = IdIndex(np.array([], dtype=np.uint64))
    names = [f"id{number}" for number in range(10)]
    for name in names:
        index.add([name])
    assert index.suspects([*names, "other"]) == set(names)
    assert len(index) == 10


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"])))
@settings(max_examples=50, deadline=None)
def test_duckdb_computes_the_same_fingerprint(name: str) -> None:
    (found,) = duckdb.execute("SELECT md5_number_lower(?)", [name]).fetchone()
    assert found == fingerprint(name)
