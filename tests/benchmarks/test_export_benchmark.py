"""What the benchmark of exports keeps and shows, from made-up results: nothing is exported here."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("export")
    for name in ("export", "questions", "_history", "_shared"):
        if name not in before:
            sys.modules.pop(name, None)


def test_an_interrupted_export_goes_on_with_the_same_versions_only(
    export: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = {"seconds": 2.0, "processor_seconds": 1.5, "peak_mb": 280, "rows": 7, "written_mb": 0.1}
    measured |= {"events_per_processor_second": 667, "times_copy": 6.9}
    logs = {"100": {"formats": {"sft": measured}}, "1000": {"formats": {}}}
    results = tmp_path / "export.json"
    assert export.kept(results, {}, fresh=False) == {}
    results.write_text(json.dumps({"versions": {"commit": "a"}, "logs": logs}))
    assert export.kept(results, {"commit": "a"}, fresh=False) == logs
    assert export.kept(results, {"commit": "a"}, fresh=True) == export.kept(results, {"commit": "b"}, fresh=False) == {}
    export.show({"logs": logs})
    assert "sft" in capsys.readouterr().out.splitlines()[-1]
