"""Runs over a few names of PyTorch's own lists: real processes, real compilers."""

from dataclasses import replace
from pathlib import Path

import pytest
from opinfo_children import misbehave

from kernelswarm.bench.opinfo import Choice, Outcome, Task, bench
from kernelswarm.bench.opinfo import children as children_module
from kernelswarm.bench.opinfo.children import Children
from kernelswarm.cli.main import run
from kernelswarm.schemas import InputError

RIGHT = ("nn.Linear", "nn.Softplus", "logsumexp", "sort")
RANDOM, SPARSE = "bernoulli", "to_sparse"
TASK = Task("ops", "", "float32", ("cpp", "triton"), 1, "", "")


@pytest.fixture(scope="module")
def choice(tmp_path_factory: pytest.TempPathFactory) -> Choice:
    pytest.importorskip("expecttest")
    home = tmp_path_factory.mktemp("home")
    return Choice(home=home, dtypes=("float32",), only=(*RIGHT, RANDOM, SPARSE), samples=1, at_once=2)


def test_drafts_are_right_and_a_second_run_does_nothing(choice: Choice) -> None:
    ended: list[str] = []
    report = bench(choice, lambda task, rows, done, of: ended.append(task.name))

    assert sorted(ended) == sorted((*RIGHT, RANDOM, SPARSE))
    assert report.misses == ()
    assert all(share.right == share.samples for share in report.shares)
    assert {share.sizes for share in report.shares if share.samples} == {"captured", "other"}
    causes = {cause.names: cause.cause for cause in report.excluded}
    assert causes[(RANDOM,)].startswith("random") and causes[(SPARSE,)].startswith("sparse")
    assert "| ops | float32 | cpp | captured |" in choice.csv.with_suffix(".md").read_text()

    again = bench(choice, lambda task, rows, done, of: ended.append(task.name))
    assert len(ended) == len(RIGHT) + 2
    assert again == report


@pytest.mark.parametrize(
    ("name", "outcome", "cause"),
    [
        ("dies", Outcome.crashed, "its process killed by SIGKILL"),
        ("exits", Outcome.crashed, "its process exited with status 7"),
        ("hangs", Outcome.late, "its process took more than 2 s"),
    ],
)
def test_a_child_that_ends_is_a_row(name: str, outcome: Outcome, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children_module, "TASK_SECONDS", 2.0)
    ((_, rows),) = Children(1, misbehave).run([replace(TASK, name=name)])

    assert [(row.language, row.sample, row.captured, row.cause) for row in rows] == [
        (language, 3, outcome, cause) for language in TASK.languages
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lists": ("layers",)}, "there is no list 'layers': choose among modules, ops"),
        ({"dtypes": ("int3",)}, "there is no dtype 'int3'"),
        ({"languages": ("cuda",)}, "there is no language 'cuda': choose among cpp, triton"),
        ({"samples": -1}, "--samples -1"),
        ({"at_once": 0}, "--at-once 0"),
        ({"only": ("nn.Linear", "nn.Linaer")}, "no name of PyTorch's modules, ops is like 'nn.Linaer'"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(change: dict[str, object], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        bench(replace(Choice(home=tmp_path), **change))  # type: ignore[arg-type]


def test_the_command_says_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "opinfo", "--list", "layers"]) == 2
    assert "there is no list 'layers'" in capsys.readouterr().err
