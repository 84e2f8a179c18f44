"""A problem file is read without being run."""

from pathlib import Path

import pytest

from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import ProblemError, ProblemFormat, sha256

FUNCTION = "shapes = {}\ndef inputs(generator): ...\ndef reference(): ...\nraise SystemExit('it was run')\n"
KERNELBENCH = "import torch\nif True:\n    class Model: ...\nget_inputs = get_init_inputs = list\n"


@pytest.mark.parametrize(
    ("source", "kind"), [(FUNCTION, ProblemFormat.function), (KERNELBENCH, ProblemFormat.kernelbench)]
)
def test_the_format_is_told_by_names(tmp_path: Path, source: str, kind: ProblemFormat) -> None:
    path = tmp_path / "23_My-Problem.py"
    path.write_text(source)

    problem = load_problem(path)

    assert problem.format is kind
    assert problem.name == "23_my_problem"
    assert problem.source == source
    assert problem.sha256 == sha256(source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"x = 1\n", "lacks `reference`"),
        (b"shapes = {}\ndef inputs(): ...\n", "lacks `reference`"),
        (
            b"shapes = {}\ndef inputs(): ...\ndef refrence(): ...\n",
            r"`reference` \(is `refrence` meant to be `reference`\?\)",
        ),
        (b"class MyModel: ...\ndef get_inputs(): ...\n", r"lacks `Model` \(is `MyModel` meant to be `Model`\?\)"),
        (
            b"class Part(nn.Module): ...\nclass Gate(Part): ...\nclass Other: ...\ndef get_inputs(): ...\n",
            r"lacks `Model` \(is `Gate` meant to be `Model`\?\); a KernelBench file has `Model`, an nn.Module, and get",
        ),
        (b"class Net(nn.Module): ...\n", r"lacks `Model` \(is `Net` meant to be `Model`\?\)"),
        (b"class Model: ...\n", "lacks `get_inputs`"),
        (
            b"shapes = {}\ndef inputs(): ...\ndef reference(): ...\nbackwards = True\n",
            r"sets `backwards`, which nothing reads: is it meant to be `backward`\?",
        ),
        (
            b"shapes = {}\ndef inputs(): ...\ndef reference(): ...\ntolerence: float = 0.1\n",
            r"is it meant to be `tolerance`\?",
        ),
        (b"def reference(:\n", "is not Python"),
        (b"\x7fELF\xff\xfe", "is not Python"),
        (b"a\0b", "is not Python"),
        (b"", "lacks `reference`"),
        (b"#" * (1 << 21), "a problem file may have"),
    ],
)
def test_what_is_no_problem_is_refused_in_one_sentence(tmp_path: Path, source: bytes, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_bytes(source)

    with pytest.raises(ProblemError, match=message) as caught:
        load_problem(path)

    assert "\n" not in str(caught.value)


def test_a_name_of_the_files_own_may_be_like_an_options(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    own = "tolerances = 1\ntimes = timed = {}\n"
    path.write_text(f"shapes = {{}}\n{own}def inputs(): ...\ndef reference(): return tolerances\n")
    assert load_problem(path).name == "own"


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"there is no file .*nowhere.py"):
        load_problem(tmp_path / "nowhere.py")
    with pytest.raises(ProblemError, match="is a folder"):
        load_problem(tmp_path)
