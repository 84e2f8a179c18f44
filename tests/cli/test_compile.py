"""``kernelswarm compile``: what a candidate takes on hardware that is not here."""

import json
from pathlib import Path

import pytest

ROWS = Path(__file__).parent.parent / "device" / "rows_triton.py"


def test_a_candidate_for_a_gpu_compiles_without_one(kernelswarm, tmp_path):
    ran = kernelswarm("compile", str(ROWS), "--pool", "h200", "--assembly", str(tmp_path / "asm"))
    assert ran.status == 0 and "registers" in ran.out and "compiled: triton 3." in ran.out
    kinds = sorted(path.suffix for path in (tmp_path / "asm").iterdir())
    assert kinds == [".ptx", ".ptx", ".sass", ".sass"]
    report = json.loads(kernelswarm("compile", str(ROWS), "--pool", "h200", "--json").out)
    assert report["ok"] and report["cached"] and [kernel["warps"] for kernel in report["kernels"]] == [8, 4]


def test_what_does_not_compile_is_said_with_its_line(kernelswarm, tmp_path):
    broken = tmp_path / "broken.py"
    before, after = ROWS.read_text().split("tl.rsqrt(")
    broken.write_text(f"{before}tl.rsquare({after}")
    line = 1 + before.count("\n")
    ran = kernelswarm("compile", str(broken), "--pool", "h200")
    assert ran.status == 1 and "does not compile" in ran.out and f"error: line {line}: rows: " in ran.out


@pytest.mark.parametrize("name", ["nothing.py", "."])
def test_a_file_that_cannot_be_read_is_a_sentence(kernelswarm, tmp_path, name):
    ran = kernelswarm("compile", str(tmp_path / name), "--pool", "h200")
    assert ran.status == 2 and "candidate file" in ran.err and len(ran.err.splitlines()) == 1


def test_what_has_no_assembly_is_refused_before_a_folder_is_made(kernelswarm, tmp_path):
    (tmp_path / "mine.py").write_text("def kernel(x):\n    return x\n")
    ran = kernelswarm("compile", str(tmp_path / "mine.py"), "--assembly", str(tmp_path / "asm"))
    assert ran.status == 2 and "has no native code that is compiled ahead: leave --assembly out" in ran.err
    assert not (tmp_path / "asm").exists()


def test_machine_code_of_a_processor_is_a_file_too(kernelswarm, tmp_path):
    text = "void twice(float* x, long n) { for (long i = 0; i < n; i++) x[i] *= 2; }"
    (tmp_path / "mine.py").write_text(f"CPP_SOURCE = 'extern \"C\" {text}'\nCPP_FLAGS = []\n")
    ran = kernelswarm("compile", str(tmp_path / "mine.py"), "--assembly", str(tmp_path / "asm"))
    (file,) = (tmp_path / "asm").iterdir()
    assert ran.status == 0 and file.suffix == ".s" and "<twice>:" in file.read_text()


def test_evaluate_refuses_a_language_that_the_pool_does_not_take_as_compile_does(kernelswarm, tmp_path):
    problem = ROWS.parent.parent.parent / "problems" / "softmax.py"
    for arguments in (["compile", str(ROWS)], ["evaluate", str(problem), str(ROWS)]):
        ran = kernelswarm(*arguments, "--pool", "cpu")
        assert ran.status == 2 and "is written in triton, pool cpu takes cpp: name another --pool" in ran.err
