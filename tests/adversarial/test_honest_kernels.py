"""The honest corpus is what it says it is, and a sample of it is judged correct. ``benchmarks/honest.py`` runs all."""

import ast
import json
import subprocess
import sys

import pytest
from honest import CORPUS, PROBLEM_FILE, SHIPPED, HonestKernel, honest_kernels

from kernelswarm.hardware.platforms import detect
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.hardware.sources.import_statements import bound
from kernelswarm.hardware.sources.problem_files import load_candidate, load_problem
from kernelswarm.schemas import ProblemFormat

KERNELS = honest_kernels()
STARTS_PROCESSES = {"subprocess", "multiprocessing", "socket"}
LIBRARIES = (set(sys.stdlib_module_names) - STARTS_PROCESSES) | {"numpy", "torch"}
SAMPLE = (
    *("rows/thread_pool", "rows/native_threads", "rows/mapped_scratch", "rows/recycled_outputs"),
    *("rows/transposed_output", "step/numpy_in_place", "gemm_scale_sum/packed_weights"),
)
BENCHMARK = SHIPPED.parent / "benchmarks" / "honest.py"
EACH = pytest.mark.parametrize("kernel", [pytest.param(kernel, id=kernel.name) for kernel in KERNELS])


def entry(kernel: HonestKernel) -> str:
    return "ModelNew" if load_problem(kernel.problem).format is ProblemFormat.kernelbench else "kernel"


def test_there_are_sixty_and_half_of_them_are_modules() -> None:
    assert len(KERNELS) >= 60
    assert sum(entry(kernel) == "ModelNew" for kernel in KERNELS) >= 30


@EACH
def test_defines_what_its_problem_asks_for(kernel: HonestKernel) -> None:
    assert entry(kernel) in bound(ast.parse(load_candidate(kernel.path)))
    assert ast.get_docstring(ast.parse(kernel.path.read_text(encoding="utf-8")))


@EACH
def test_imports_what_the_sandbox_has(kernel: HonestKernel) -> None:
    nodes = list(ast.walk(ast.parse(load_candidate(kernel.path))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= LIBRARIES


def test_every_problem_has_a_kernel() -> None:
    assert {path.parent for path in CORPUS.glob(f"*/{PROBLEM_FILE}")} <= {kernel.path.parent for kernel in KERNELS}


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The benchmark on the sample; its counts are kept."""
    home = tmp_path_factory.mktemp("home")
    # Else it would measure this machine again.
    detect(find_pool("cpu", home), home)
    options = ("--evaluations", "1", "--only", ",".join(SAMPLE), "--kept", str(home / "honest.json"), "--json")
    return [sys.executable, str(BENCHMARK), *options, "--home", str(home)]


@pytest.fixture(scope="module")
def judged(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_sample_is_judged_correct(judged: subprocess.CompletedProcess[str]) -> None:
    rows = json.loads(judged.stdout)["rows"].values()
    assert {row["kernel"]: row["verdicts"] for row in rows} == {name: {"correct": 1} for name in SAMPLE}, judged.stderr
    assert judged.returncode == 0


def test_an_evaluation_that_is_kept_is_not_repeated(
    command: list[str], judged: subprocess.CompletedProcess[str]
) -> None:
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"1 {SAMPLE[0]}: " in judged.stderr and again.stderr == ""
    assert json.loads(again.stdout)["rows"] == json.loads(judged.stdout)["rows"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "rows/nothing"], "there is no honest kernel rows/nothing"),
        (["--evaluations", "0"], "give 1 or more"),
    ],
)
def test_a_wrong_argument_is_named(arguments: list[str], words: str) -> None:
    done = subprocess.run([sys.executable, BENCHMARK, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words in done.stderr
