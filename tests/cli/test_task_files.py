"""Files that authors hand in with ``kernelswarm tasks``: by name, as JSON, or within Markdown."""

import io
import sys
from pathlib import Path

import msgspec
import pytest

from kernelswarm.cli.commands.task_files import Draft, drafts
from kernelswarm.schemas import InputError
from kernelswarm.sessions.outside.client import candidate_text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["s-1/n001/1"], "'s-1/n001/1' stands alone: write LEASE FILE pairs"),
        (["{'lease':", "'s-1/n001/1'}", "a.py"], "\"{'lease':\" is no lease: write SESSION/NODE/N"),
        (["s-1/n001/1", "nowhere.py"], "candidate file nowhere.py does not exist"),
    ],
)
def test_files_that_cannot_be_handed_in_are_named(words: list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        drafts(words)


def stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "stdin is not what is wanted"),
        ('{"source": "x"}', "stdin is not what is wanted .*lease"),
        ('{"lease": "s-1/n001/1"}', "comes without a candidate"),
    ],
)
def test_json_that_is_none_or_lacks_something_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    stdin(monkeypatch, text)
    with pytest.raises(InputError, match=sentence):
        drafts(["-"])


KERNEL = "import torch\n\ndef kernel(x):\n    return x * 2\n"
QUOTING = f'"""As in\n```python\nkernel(x)\n```\n"""\n{KERNEL}'
BROKEN = "def kernel(x:\n    return x\n"


@pytest.mark.parametrize(
    ("text", "file"),
    [
        (f"```python\n{KERNEL}```\n", KERNEL),
        (f"<think>two?</think>One pass.\n\n```\n{KERNEL}```\nDone.\n", KERNEL),
        (QUOTING, QUOTING),
        (BROKEN, BROKEN),
    ],
)
def test_a_file_is_taken_out_of_markdown_as_out_of_a_model_s_answer(text: str, file: str, tmp_path: Path) -> None:
    (tmp_path / "answer.md").write_text(text)
    (draft,) = drafts(["s/n001/1", str(tmp_path / "answer.md")])
    assert candidate_text(draft.source) == file


def test_markdown_that_holds_no_one_file_costs_no_hand_in() -> None:
    two = f"```python\n{KERNEL}```\n```python\n{KERNEL.replace('2', '3')}```\n"
    with pytest.raises(InputError, match=r"no Python file, and as Markdown it cannot be read: .* 2 different files"):
        candidate_text(two)


def test_several_files_come_as_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [Draft(lease="s/n001/1", source="a", rationale="why"), Draft(lease="s/n002/1", source="b")]
    stdin(monkeypatch, msgspec.json.encode(wanted).decode())
    assert drafts(["-"]) == wanted
