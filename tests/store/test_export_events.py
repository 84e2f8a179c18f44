"""Events leave a log and come into another one: once, in order, with their chain checked, or not at all."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from story import story, wire

from given import envelope_of
from kernelswarm.schemas import InputError, KernelswarmError, LogCorrupted, StopRequested, StoreError, encode
from kernelswarm.store import Log, import_log, log_path, run_sql, sessions, show, write_export
from kernelswarm.store.export import FORMATS


def home_with(folder: Path, *histories: list) -> Path:
    with Log.open(log_path(folder)) as log:
        log.append(wire([envelope for session in histories for envelope in session], log.last_seq() + 1))
    return folder


def events_of(home: Path) -> list[bytes]:
    with Log.open(log_path(home), read_only=True) as log:
        assert log.verify().ok
        return [encode(envelope) for _, envelope in log.read(limit=10_000)]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: a log takes a moment to make."""
    folder = tmp_path_factory.mktemp("homes")
    home_with(folder / "here", story("one"))
    home_with(folder / "there", story("two"), story("three"))
    return folder


@pytest.fixture
def here(homes: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(homes / "here", tmp_path / "here"))


@pytest.fixture
def there(homes: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(homes / "there", tmp_path / "there"))


async def source_of(home: Path, form: str) -> Path:
    if form == "file":
        return log_path(home)
    await write_export(home, "events", home / "exported")
    return home / "exported"


@pytest.mark.parametrize("form", ["file", "folder"])
async def test_an_import_goes_on_with_the_chain_here(here: Path, there: Path, form: str) -> None:
    mine, theirs = events_of(here), events_of(there)
    done = import_log(here, await source_of(there, form))
    assert (done.events, done.known, done.sessions) == (len(theirs), 0, ("two", "three"))
    assert events_of(here) == mine + theirs
    assert {row.session for row in await sessions(here)} == {"one", "two", "three"}
    assert (await show(here, "three")).session.best == "n2"
    assert (await run_sql(here, "SELECT count(*) FROM nodes WHERE session = 'two'")).rows == ((4,),)


@pytest.mark.parametrize("form", ["file", "folder"])
async def test_a_second_import_brings_only_what_is_new(here: Path, there: Path, form: str) -> None:
    import_log(here, await source_of(there, form))
    home_with(there, story("four"))
    shutil.rmtree(there / "exported", ignore_errors=True)
    done = import_log(here, await source_of(there, form))
    assert (done.events, done.sessions) == (len(story("four")), ("four",))
    assert done.known == 2 * len(story("two"))
    assert import_log(here, log_path(there)).events == 0


async def test_an_import_makes_a_log_where_there_is_none(there: Path, tmp_path: Path) -> None:
    import_log(tmp_path / "new", log_path(there))
    assert events_of(tmp_path / "new") == events_of(there)


async def test_a_session_that_goes_on_elsewhere_is_completed(tmp_path: Path) -> None:
    envelopes = story("one")
    here, there = home_with(tmp_path / "a", envelopes[:9]), home_with(tmp_path / "b", envelopes)
    assert import_log(here, log_path(there)).events == len(envelopes) - 9
    assert events_of(here) == [encode(envelope) for envelope in envelopes]


@pytest.mark.parametrize("form", ["file", "folder"])
async def test_a_name_that_is_another_session_here_is_refused_and_can_be_left_out(
    here: Path, tmp_path: Path, form: str
) -> None:
    there = home_with(tmp_path / "there", story("two"), story("one", seed=99))
    before = events_of(here)
    source = await source_of(there, form)
    with pytest.raises(InputError, match=r"session 'one' is here already.*--without one"):
        import_log(here, source)
    assert events_of(here) == before
    done = import_log(here, source, without=["one"])
    assert (done.sessions, done.left_out) == (("two",), len(story("one")))
    with pytest.raises(InputError, match="no session 'nine'"):
        import_log(here, source, sessions=["nine"])


async def test_an_export_with_secrets_taken_out_is_known_again(tmp_path: Path) -> None:
    envelopes = [*story("one"), envelope_of(StopRequested(reason="see /home/annabel/x"), session="one", cause="c")]
    home = home_with(tmp_path / "a", envelopes)
    manifest = await write_export(home, "events", tmp_path / "out")
    assert manifest.redacted_events == 1
    assert import_log(home, tmp_path / "out").events == 0
    assert import_log(tmp_path / "b", tmp_path / "out").events == len(envelopes)
    assert "annabel" not in str(events_of(tmp_path / "b"))


def below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def tampered(path: Path) -> None:
    with duckdb.connect(path) as con:
        con.execute("DROP TRIGGER no_update ON events")
        con.execute("UPDATE events SET body = replace(body, '3.0', '2.5') WHERE seq = 2")


@pytest.mark.parametrize("format", FORMATS)
async def test_a_log_that_is_not_what_was_written_is_not_exported(here: Path, tmp_path: Path, format: str) -> None:
    tampered(log_path(here))
    before = below(tmp_path)
    with pytest.raises(LogCorrupted, match=r"damaged from event 2 \(\w+\): "):
        await write_export(here, format, tmp_path / "out")
    assert below(tmp_path) == before


def newer(path: Path) -> None:
    with duckdb.connect(path) as con:
        con.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (cut, "log"),
    "tampered": (tampered, r"damaged from event 2 \("),
    "newer": (newer, "version 99"),
    "empty": (lambda path: path.write_bytes(b""), "is no log file"),
    "noise": (lambda path: path.write_bytes(bytes(range(256)) * 300), "is no log file"),
    "gone": (lambda path: path.unlink(), "there is no"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "manifest.json"),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_file_is_named_and_nothing_changes(here: Path, there: Path, how: str) -> None:
    before = events_of(here)
    poison, sentence = SPOILT[how]
    poison(log_path(there))
    with pytest.raises(KernelswarmError, match=sentence) as raised:
        import_log(here, log_path(there))
    assert isinstance(raised.value, InputError | StoreError)
    assert events_of(here) == before
    with pytest.raises(KernelswarmError):
        import_log(here.with_name("new"), log_path(there))
    assert not log_path(here.with_name("new")).exists()


async def test_the_file_of_a_folder_is_not_taken_for_a_log(here: Path, there: Path) -> None:
    folder = await source_of(there, "folder")
    with pytest.raises(InputError, match=r"events\.jsonl\.zst is no log file: name the folder that holds it"):
        import_log(here, folder / "events.jsonl.zst")


@pytest.mark.parametrize("how", ["cut", "changed", "newer", "other format", "no manifest"])
async def test_a_spoilt_folder_is_named_and_nothing_changes(here: Path, there: Path, how: str) -> None:
    before = events_of(here)
    folder = await source_of(there, "folder")
    manifest = folder / "manifest.json"
    if how == "cut":
        cut(folder / "events.jsonl.zst")
    elif how == "changed":
        await write_export(there, "events", there / "less", sessions=["two"])
        shutil.copy(there / "less" / "events.jsonl.zst", folder)
    elif how == "no manifest":
        manifest.unlink()
    else:
        changed = ('"manifest_version": 1', '"manifest_version": 9') if how == "newer" else ('"events"', '"sft"')
        manifest.write_text(manifest.read_text().replace(*changed, 1))
    with pytest.raises(StoreError, match=r"line|is not the file|version 9|format sft|cannot be read"):
        import_log(here, folder)
    assert events_of(here) == before


@pytest.mark.parametrize("room", [10_000, 500_000])
def test_a_full_disk_changes_nothing(here: Path, tmp_path: Path, room: int) -> None:
    large = [envelope_of(StopRequested(reason=f"{n} " * 2000), session="large", cause=str(n)) for n in range(300)]
    there = home_with(tmp_path / "there", large)
    before = events_of(here)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(StoreError, match="disk is full"):
            import_log(here, log_path(there))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert events_of(here) == before
    assert import_log(here, log_path(there)).events == 300


def test_a_log_in_use_is_not_imported_into(here: Path, there: Path) -> None:
    with Log.open(log_path(here)), pytest.raises(StoreError, match="in use"):
        import_log(here, log_path(there))
    with pytest.raises(InputError, match="this log itself"):
        import_log(here, log_path(here))
