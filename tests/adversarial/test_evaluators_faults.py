"""The faults of evaluators themselves: each is one that ``kernelswarm evaluate`` does not have."""

import json
from pathlib import Path

import pytest
from adversarial import JUDGED, POOLS, Judge
from cheats import KERNELS, PROBLEMS


def test_a_degenerate_problem_is_refused_before_anything_is_judged(judge: Judge) -> None:
    done = judge.evaluate(PROBLEMS / "degenerate.py", KERNELS / "cpu" / "constant.py")
    assert done.returncode == 2 and done.stdout == ""
    assert "degenerate.py decides nothing: an answer of all 1 passes" in done.stderr


def test_nobody_can_declare_a_peak(tmp_path: Path) -> None:
    """A wrong figure would end searches early at "90 % of peak": peaks are measured, or there are none."""
    judge = Judge(tmp_path)
    (tmp_path / "pools" / "mine.toml").write_text(f"{POOLS['cpu']}peak_gflops = 1.0\n")
    done = judge.evaluate(PROBLEMS / "rows.py", KERNELS / "cpu" / "honest.py", pool="mine")
    assert done.returncode == 2 and done.stdout == ""
    assert "unknown key 'peak_gflops' = 1.0" in done.stderr


def test_weights_are_shared(judge: Judge) -> None:
    """The candidate makes its own under another seed, and gets the reference's all the same."""
    (evaluation,) = judge.of("product", "honest_weights")
    assert evaluation["verdict"] == "correct", evaluation


@pytest.mark.thorough
def test_text_in_a_candidate_changes_nothing(judge: Judge) -> None:
    (with_text,) = judge.of("rows", "half_precision_with_text")
    (without,) = judge.of("rows", "half_precision")
    assert with_text["verdict"] == without["verdict"]
    assert with_text["evidence"]["shape"] == without["evidence"]["shape"]


def test_the_baseline_is_measured_in_the_same_run(judge: Judge) -> None:
    """Each candidate has a time of the baseline of its own, though the baseline's process is shared."""
    all_times = [evaluation["times_ms"] for evaluation in judge.evaluations("rows") if evaluation["correct"]]
    # Three are honest; attacks that are right may be refused, and then have no times.
    assert len(all_times) >= 3 and all(set(times) == {"eager", "candidate"} for times in all_times)
    assert len({times["eager"] for times in all_times}) > 1


def test_what_pytorch_computes_in_no_hurry_is_no_win_whatever_lies_beside_it(judge: Judge) -> None:
    (evaluation,) = judge.of("rows", "decoy")
    assert evaluation["correct"] and not evaluation["win"]


CHAIN = """
import torch
shapes = {"main": dict(rows=64, cols=4096), "ragged": dict(rows=7, cols=33)}
def inputs(generator, rows, cols):
    return [torch.randn(rows, cols, generator=generator), torch.rand(cols, generator=generator)]
def reference(x, w):
    for _ in range(16):
        x = (x * w + 0.25).abs()
    return x
"""
ONE_PASS = """
import ctypes, hashlib, json, os
from pathlib import Path
import torch
CPP_SOURCE = r'''
#include <cmath>
extern "C" void chain(const float* x, const float* w, float* out, long rows, long cols) {
    for (long r = 0; r < rows; r++) {
        #pragma omp simd
        for (long c = 0; c < cols; c++) {
            float y = x[r * cols + c];
            for (int step = 0; step < 16; step++) y = std::fabs(y * w[c] + 0.25f);
            out[r * cols + c] = y;
        }
    }
}
'''
CPP_FLAGS = []
text = json.dumps(["cpp", CPP_SOURCE, CPP_FLAGS], separators=(",", ":"))
name = hashlib.sha256(text.encode()).hexdigest() + ".so"
library = ctypes.CDLL(str(Path(os.environ["KERNELSWARM_ARTIFACTS"]) / name))
library.chain.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2
def kernel(x, w):
    x, w = x.contiguous(), w.contiguous()
    out = torch.empty_like(x)
    library.chain(x.data_ptr(), w.data_ptr(), out.data_ptr(), *x.shape)
    return out
"""


def test_one_honest_file(judge: Judge, tmp_path: Path) -> None:
    """One object, exit status 0, and a win that is one: forty-eight passes over memory against one."""
    problem, kernel = tmp_path / "chain.py", tmp_path / "one_pass.py"
    problem.write_text(CHAIN)
    kernel.write_text(ONE_PASS)
    done = judge.evaluate(problem, kernel, program=JUDGED)
    assert done.returncode == 0, done.stdout + done.stderr
    evaluation = json.loads(done.stdout)
    assert set(evaluation) == {
        *("candidate", "verdict", "correct", "win", "reason", "evidence", "isolation", "pool"),
        *("speedup", "ordinary_speedup", "call_speedup", "times_ms", "roofline_fraction", "session", "noisy", "detail"),
        *("measure", "ordinary", "device", "call", "ordinary_missing"),
    }
    assert evaluation["verdict"] == "correct" and evaluation["win"] and evaluation["speedup"]["against"] == "eager"
