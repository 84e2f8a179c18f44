"""What an exported folder holds: rewards as measured, pairs and groups of one prompt state, nothing on an error."""

import json
import resource
from pathlib import Path

import pyarrow.json
import pyarrow.parquet
import pytest
from story import Story, story, wire
from training_story import generator_story, model_story

from kernelswarm.schemas import InputError, Intent, StoreError, sha256
from kernelswarm.store import Log, log_path, run_sql, write_export
from kernelswarm.store.export import DpoRow, GrpoRow, Manifest, SftRow
from kernelswarm.store.export.training import advantages
from kernelswarm.store.views import VIEWS


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Log.open(log_path(tmp_path)) as log:
        log.append(wire(model_story() + generator_story() + story("rmsnorm-a1")))
    return tmp_path


async def exported(home: Path, format: str, **more: object) -> tuple[Manifest, list[dict]]:
    out = home / "out" / format
    manifest = await write_export(home, format, out, **more)
    assert json.loads((out / "manifest.json").read_text())["rows"] == manifest.rows
    data = (out / f"{format}.jsonl").read_bytes()
    assert [(entry.name, entry.rows, entry.sha256) for entry in manifest.files] == [
        (f"{format}.jsonl", data.count(b"\n"), sha256(data))
    ]
    assert sorted(path.name for path in out.parent.iterdir()) == [format]
    return manifest, [json.loads(line) for line in data.splitlines()]


def files(home: Path) -> list[Path]:
    return sorted(home.rglob("*"))


def state_of(prompt: list[dict]) -> str:
    return sha256(json.dumps(prompt, ensure_ascii=False, sort_keys=True, separators=(",", ":")))


async def test_sft_is_the_path_to_the_best_kernel(home: Path) -> None:
    manifest, rows = await exported(home, "sft", sessions=["softmax-m1"])
    assert [(row["node"], row["step"], row["steps"], row["reward"]) for row in rows] == [
        ("n2", 1, 2, 2),
        ("n5", 2, 2, 4),
    ]
    assert rows[0]["prompt"] == [
        {"role": "system", "content": "You write kernels."},
        {"role": "user", "content": "problem\n\ndraft it"},
    ]
    assert rows[1]["completion"] == [{"role": "assistant", "content": "```python\n# n5\n```"}]
    assert all(row["win"] and row["best_reward"] == 4 and row["author"] == "m-1" for row in rows)
    assert manifest.sessions == 1
    with Log.open(log_path(home), read_only=True) as log:
        assert (manifest.log.events, manifest.log.head) == (len(log), log.head)
    assert [(entry.name, entry.licence) for entry in manifest.problems] == [("rmsnorm", "unknown")]


async def test_grpo_groups_answer_one_prompt_and_wrong_ones_earn_nothing(home: Path) -> None:
    manifest, rows = await exported(home, "grpo", sessions=["softmax-m1"])
    (row,) = rows
    assert row["nodes"] == ["n1", "n2", "n3", "n4"]
    assert row["rewards"] == [1, 2, 0, 0]
    assert row["verdicts"] == ["correct", "correct", "wrong_numbers", "synthesis_failed"]
    assert row["advantages"] == pytest.approx(advantages([1, 2, 0, 0])) and sum(row["advantages"]) == pytest.approx(0)
    assert row["prompt_sha256"] == state_of(row["prompt"])
    assert manifest.skipped == {
        "not judged before its session ended": 1,
        "only answer to its prompt state": 1,
    }


async def test_dpo_pairs_share_their_prompt_and_differ_by_more_than_noise(home: Path) -> None:
    _, rows = await exported(home, "dpo", sessions=["softmax-m1"])
    pairs = {(row["chosen_node"], row["rejected_node"]): row["margin"] for row in rows}
    assert pairs == {("n2", "n1"): 1, ("n1", "n3"): 1, ("n1", "n4"): 1, ("n2", "n3"): 2, ("n2", "n4"): 2}
    assert all(row["prompt_sha256"] == state_of(row["prompt"]) and row["chosen"] != row["rejected"] for row in rows)


async def test_the_generators_prompt_is_problem_parent_and_diagnosis(home: Path) -> None:
    _, rows = await exported(home, "grpo", sessions=["rmsnorm-p1"])
    # n5 started from the same parent, but after another diagnosis: it is in neither group.
    assert [(row["parent"], row["nodes"]) for row in rows] == [("", ["n1", "n2"]), ("n2", ["n3", "n4"])]
    drafted, improved = (row["prompt"][-1]["content"] for row in rows)
    assert "def reference" in drafted and "Parent" not in drafted
    assert "# n2:" in improved and "limited by memory_traffic" in improved and "reduce_traffic" in improved
    assert all(row["prompt_sha256"] == state_of(row["prompt"]) for row in rows)
    assert rows[1]["completions"][0][0]["content"].startswith("why n3\n\n```python\n# n3:")


async def test_a_session_that_is_still_open_is_not_counted_as_one_that_found_nothing(tmp_path: Path) -> None:
    with Log.open(log_path(tmp_path)) as log:
        log.append(wire(story("only-planned")[:3] + story("found-one", close=False)))
    manifest, rows = await exported(tmp_path, "sft")
    assert {row["session"] for row in rows} == {"found-one"}, "the best so far"
    assert manifest.skipped["session that is still open, without a correct kernel so far"] == 1
    assert "session without a correct kernel" not in manifest.skipped


@pytest.mark.parametrize("format", ["sft", "dpo", "grpo"])
async def test_what_was_only_measured_again_is_no_answer(tmp_path: Path, format: str) -> None:
    history = Story("rmsnorm-f1")
    history.open()
    for node, intent in (("n1", Intent.remeasure), ("n2", Intent.draft)):
        history.plan(node, "", int(node[1]), intent)
        history.propose(node)
        history.time(node, 1.0)
    with Log.open(log_path(tmp_path)) as log:
        log.append(wire(history.envelopes))

    manifest, _ = await exported(tmp_path, format)

    assert "measured again, nobody was asked for it" in manifest.skipped


async def test_where_chooses_rows_and_is_only_read(home: Path) -> None:
    manifest, rows = await exported(home, "grpo", where="verdict = 'correct' -- and no more")
    assert all(set(row["verdicts"]) == {"correct"} for row in rows) and manifest.skipped["not selected"] > 0
    for where, message in (
        ("no_such_column > 1", "no_such_column"),
        ("1); DELETE FROM events; --", "where"),
        ("1) UNION SELECT * FROM read_csv('/etc/passwd') --", "where"),
    ):
        with pytest.raises(InputError, match=message):
            await write_export(home, "sft", home / "refused", where=where)
    assert not (home / "refused").exists()


@pytest.mark.parametrize(("format", "kind"), [("sft", SftRow), ("dpo", DpoRow), ("grpo", GrpoRow)])
async def test_readers_load_it_and_the_document_names_every_field(home: Path, format: str, kind: type) -> None:
    manifest, rows = await exported(home, format)
    table = pyarrow.json.read_json(home / "out" / format / f"{format}.jsonl")
    assert table.num_rows == manifest.rows == len(rows) > 0
    assert table.column_names == list(kind.__struct_fields__)
    assert not any(pyarrow.types.is_null(field.type) for field in table.schema)
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    section = page.split(f"## {format}\n")[1].split("\n## ")[0]
    assert [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")] == table.column_names


async def test_parquet_holds_every_view_and_the_events(home: Path) -> None:
    manifest = await write_export(home, "parquet", home / "out", where="synthesizer = 'anthropic'")
    assert {entry.name for entry in manifest.files} == {f"{name}.parquet" for name in ("events", *VIEWS)}
    for entry in manifest.files:
        table = pyarrow.parquet.read_table(home / "out" / entry.name)
        assert table.num_rows == entry.rows
        assert not any("json" in str(field.type) for field in table.schema)
    events = pyarrow.parquet.read_table(home / "out" / "events.parquet")
    assert set(events["session"].to_pylist()) == {"softmax-m1"}
    nodes = pyarrow.parquet.read_table(home / "out" / "nodes.parquet").to_pylist()
    assert {row["node"]: row["fitness"] for row in nodes}["n5"] == 4
    assert sorted(path.name for path in (home / "out").iterdir() if path.suffix != ".parquet") == ["manifest.json"]


async def test_parquet_holds_the_rows_of_the_views_however_many_sessions_are_asked_at_a_time(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelswarm.store.export.parquet._PORTION", 1)
    await write_export(home, "parquet", home / "out")
    for view in VIEWS:
        rows = pyarrow.parquet.read_table(home / "out" / f"{view}.parquet").num_rows
        assert (rows,) == (await run_sql(home, f"SELECT count(*) FROM {view}")).rows[0], view
    candidates = pyarrow.parquet.read_table(home / "out" / "candidates.parquet").to_pylist()
    assert {row["session"] for row in candidates} == {"softmax-m1", "rmsnorm-p1", "rmsnorm-a1"}
    assert all(row["source"] for row in candidates)


async def test_a_log_that_this_process_writes_can_be_exported(home: Path) -> None:
    with Log.open(log_path(home)):
        _, rows = await exported(home, "sft")
    assert rows


@pytest.mark.parametrize("what", ["full", "file", "link"])
async def test_a_folder_in_use_is_refused_and_left_alone(home: Path, what: str) -> None:
    out = home / "taken"
    if what == "full":
        out.mkdir()
        (out / "mine").write_text("kept")
    elif what == "file":
        out.write_text("kept")
    else:
        out.symlink_to(home / "nowhere")
    before = files(home)
    with pytest.raises(InputError, match="not there yet, or an empty one"):
        await write_export(home, "sft", out)
    assert files(home) == before


async def test_an_empty_folder_is_taken(home: Path) -> None:
    (home / "empty").mkdir()
    await write_export(home, "sft", home / "empty")
    assert (home / "empty" / "manifest.json").exists()


@pytest.mark.parametrize("format", ["sft", "events", "parquet"])
async def test_a_full_disk_leaves_nothing(home: Path, format: str) -> None:
    before = files(home)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises((InputError, StoreError), match="disk is full"):
            await write_export(home, format, home / "deep" / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(home) == before


async def test_what_cannot_be_exported_is_named(home: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'softmax-m1'"):
        await write_export(home, "sft", home / "out", sessions=["softmax-m2"])
    with pytest.raises(InputError, match="no format 'csv'"):
        await write_export(home, "csv", home / "out")
    with pytest.raises(StoreError, match="no log"):
        await write_export(home / "elsewhere", "sft", home / "out")
    assert not (home / "out").exists() and log_path(home) in files(home)
