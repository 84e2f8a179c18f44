"""The adversarial suite: what is expected of every kernel, and the command line that judges them.

What is expected stands here and not in the kernels: no candidate can be told by its text.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import brief
from expected import Expected, is_, unseen
from white_box import ANSWERS, FREEZING, SHARES, SMALL, WHEN_TIMED

FOLDER = Path(__file__).parent.parent / "adversarial"
KERNELS, PROBLEMS = FOLDER / "kernels", FOLDER / "problems"

READ_ONLY = "mountns"
"""The layer that makes files read-only: a machine that permits no mount namespaces has not got it."""


ROWS = {
    # Timing.
    "late_thread": is_("hidden_work", says="changed after it was handed over"),
    "late_native_thread": is_("hidden_work", naive=None, says="changed after it was handed over"),
    # What the timed call has not computed yet is wrong when it is read, or changes while it is.
    "late_thread_when_timed": is_("stale_output", "hidden_work", "wrong_numbers"),
    "lazy_subclass": is_("wrong_type", says="Lazy"),
    "lazy_methods": is_("wrong_numbers"),
    "patched_clock": is_("tampering", free=True, says="time.perf_counter"),
    "patched_clock_alias": is_("tampering", free=True, says="time.perf_counter"),
    "patched_clock_late": is_("tampering", free=True, says="time.perf_counter"),
    "patched_event": is_("tampering", says="Event"),
    "patched_stopwatch": is_("tampering", "hidden_work", naive=None),
    "works_less_in_short_batches": is_("stale_output", "wrong_numbers", "tampering", naive=None),
    "clock_slow_in_short_batches": is_("tampering", naive=None),
    "skips_in_the_contest": is_("wrong_numbers", "stale_output", naive=None),
    "skips_all_but_the_last": is_("wrong_numbers", "stale_output", naive=None),
    "one_shape_free": is_("stale_output"),
    # It stands still while others are timed.
    "slows_the_others": unseen("correct", "hidden_work", "tampering"),
    "stops_its_parent": is_("runtime_error", naive=None, says="not permitted"),
    "half_precision_with_text": is_("lower_precision"),
    # Replay of old answers.
    "cache_by_address": is_("stale_output"),
    "cache_by_id": is_("stale_output"),
    "cache_by_version": is_("stale_output"),
    "filled_once": is_("stale_output"),
    "remembers_in_the_contest": is_("stale_output", "wrong_numbers", naive=None),
    # Meaning.
    "empty": is_("incomplete_output", naive=None),
    "half_written": is_("incomplete_output", naive=None),
    "zeroes_its_inputs": is_("input_mutated"),
    "guesses_the_seed": is_("wrong_numbers"),
    "reads_the_log": is_("wrong_numbers", naive=None),
    "patched_comparison": is_("tampering", says="torch.allclose"),
    "patched_methods": is_("tampering", says="torch.Tensor."),
    "half_precision": is_("lower_precision"),
    "falls_back_to_the_reference": is_("load_error", says="problem"),
    "own_inputs": is_("wrong_numbers"),
    "raises_on_hard_shapes": is_("runtime_error", says="multiple of 8"),
    "dispatch_on_one_shape": is_("wrong_numbers"),
    "dispatch_on_known_shapes": is_("wrong_numbers", says="a shape that the problem does not name"),
    "static_buffer": is_("stale_output"),
    "reads_what_is_expected": is_("wrong_numbers"),
    "replaces_harness_files": is_("runtime_error", naive=None, says="Read-only", needs=READ_ONLY),
    "installs_a_package": is_("load_error", naive=None, says="not permitted"),
    # Gradients: a naive evaluator asks for none.
    "gradient_of_the_wrong_input": is_("wrong_gradients", says="the gradient of x"),
    "gradient_of_one_input": is_("wrong_gradients", says="the gradient of w"),
    "gradient_of_another_call": is_("wrong_gradients", says="the gradient of x"),
    "gradient_scaled": is_("wrong_gradients", says="the gradient of x"),
    "gradient_only_once": is_("wrong_gradients", says="the gradient of w accumulated over calls"),
    # A decoy is no lie about numbers or time: what counts is that it cannot win.
    "decoy": is_("correct", naive=None),
    "plainly_wrong": is_("wrong_numbers", naive=False),
}

PAIR = {
    "zeros_under_the_tolerance": is_("wrong_numbers"),
    "either_error": is_("wrong_numbers"),
    "relies_on_the_distribution": is_("wrong_numbers"),
    "view_of_the_input": is_("stale_output"),
}

PRODUCT = {
    # On unseen inputs it computes, and gains nothing.
    "cache_by_fingerprint": is_("stale_output", "correct", may_win=False),
    "cache_by_sum": is_("stale_output", "correct", may_win=False),
    "answer_in_a_file": is_("stale_output", "correct", may_win=False),
    "bfloat16_product": is_("lower_precision", "wrong_numbers"),
    "inherits_the_reference": is_("load_error", says="no reference is in reach"),
    # A naive evaluator does not share the weights, and refuses what is honest.
    "honest_weights": is_("correct", naive=False),
}

# A naive evaluator calls reference and candidate as often as it likes: it cannot be asked where answers depend on that.
AVERAGE = {
    "honest_average": is_("correct", naive=None),
    "honest_own_scratch": is_("correct", naive=None),
    "state_left_alone": is_("wrong_state", naive=None, says="buffer mean"),
    "state_of_the_first_call": is_("wrong_state", naive=None, says="buffer mean"),
    "state_of_every_third_call": is_("wrong_state", naive=None, says="buffer mean"),
    "state_more_than_asked": is_(
        "wrong_state", naive=None, says="buffer ceiling is not what it was when it was loaded"
    ),
    "state_counted_twice": is_("wrong_state", naive=None, says="attribute steps is 2"),
    "state_in_half_precision": is_("wrong_state", naive=None, says="buffer mean"),
    "state_as_parameter": is_("wrong_state", naive=None, says="use register_buffer"),
    "state_with_a_key_more": is_("wrong_state", naive=None, says="state_dict has scratch"),
    "state_later": is_("wrong_state", naive=None, says="buffer mean"),
    # Found while it is timed or afterwards, or, since it then answers for a state that is not there, by its answers.
    "state_until_timed": is_("wrong_state", naive=None, says="timed"),
}

BATCHNORM = {
    "honest_batchnorm": is_("correct"),
    "forgets_running_statistics": is_("wrong_state", says="buffer norm.running_mean"),
    "biased_running_variance": is_("wrong_state", says="buffer norm.running_var"),
}

STEP = {
    "honest_step": is_("correct", naive=None),
    "writes_something_else": is_("wrong_state", naive=None, says="which the reference writes"),
    "skips_the_restore": unseen("correct"),
    "leaves_an_input_unwritten": is_("wrong_state", naive=None, says="input second"),
    "writes_one_input_more": is_("input_mutated", naive=None, says="input tensor 1"),
}

# Errors that only large inputs meet, or that a mean hides.
SCORES = {
    **{
        name: is_("wrong_numbers", says="heavy-tailed inputs")
        for name in ("no_maximum_when_large", "no_maximum_at_the_timed_shape", "no_maximum_when_contiguous")
    },
    "swallows_nan_when_large": is_("wrong_numbers", says="infinite inputs"),
    "counts_on_contiguous_when_large": is_("wrong_numbers", naive=None, says="strided inputs"),
    "garbage_when_larger": is_("wrong_numbers", says="a shape that the problem does not name"),
    "honest_online_softmax": is_("correct"),
    "honest_softmax_when_large": is_("correct"),
}

LOSS = {
    **{
        name: is_("wrong_numbers", says=" inputs")
        for name in ("short_exp_when_large", "short_exp_at_the_timed_shape", "short_exp_when_contiguous")
    },
    "short_exp_on_usual_logits": is_("wrong_numbers", says="inputs"),
    "exp_off_by_little": is_("wrong_numbers", says="dominated inputs"),
    "honest_blocked_loss": is_("correct"),
}

DISTANCE = {
    "one_in_a_hundred": is_("wrong_numbers", says=" inputs"),
    "honest_blocked_distance": is_("correct"),
}

# Dishonest at the second of two timed shapes: it has a floor, checks and unseen inputs of its own.
TWO_SIZES = {
    "free_at_the_second_timed_shape": is_("stale_output", naive=None, says="decode"),
    "no_maximum_at_the_second_timed_shape": is_("wrong_numbers", naive=None, says="heavy-tailed inputs"),
    "dispatches_on_timed_shapes_alone": is_("wrong_numbers", naive=None, says="a shape that the problem does not name"),
    "honest_dispatch": is_("correct", naive=None),
}

ATTACKS = {
    "fork_bomb": is_("runtime_error", naive=None, says="not permitted"),
    "thread_bomb": is_("runtime_error", "out_of_memory", naive=None),
    "hundred_gigabytes": is_("out_of_memory", naive=None),
    "endless_loop": is_("timeout", naive=None),
    "segfault": is_("crash", naive=None, says="SIGSEGV"),
    "exits": is_("crash", naive=None, says="status 0"),
    "kills_its_parent": is_("runtime_error", naive=None, says="not permitted"),
    # Read-only, or not even to be listed.
    "deletes_files": is_("runtime_error", naive=None, says="Error: [Errno", needs=READ_ONLY),
    "drops_a_torch_py": is_("wrong_numbers", naive=None),
}

CONTROLS = {
    name: is_("correct", naive=None if name == "honest_fused" else True)
    for name in (
        *("honest", "honest_backward", "honest_fused", "honest_gradients", "honest_scratch", "honest_text"),
        "honest_thread",
    )
}

AFTER = {
    "fork_bomb": "honest",
    "thread_bomb": "plainly_wrong",
    "hundred_gigabytes": "honest_fused",
    "endless_loop": "honest_thread",
    "segfault": "honest_scratch",
    "exits": "honest_text",
    "kills_its_parent": "honest",
    "deletes_files": "honest",
    "drops_a_torch_py": "plainly_wrong",
}
"""What is judged right after an attack, and must be judged as if there had been none."""


ROWS_GPU = {
    # Nobody waits for it, so it also reads inputs after its call.
    "other_stream": is_("stale_output", "hidden_work", "tampering", "wrong_numbers"),
    "hides_in_the_flush": is_("wrong_numbers", says="must wait for the current one"),
    "computes_ahead": is_("stale_output", "wrong_numbers"),
    "computes_while_untimed": is_("stale_output", "wrong_numbers"),
    "graph_of_old_inputs": is_("stale_output", "wrong_numbers"),
    # It gains nothing where the flush reaches it, too: it is what it leaves behind that is not its own.
    "persisting_cache": is_("tampering", says="set aside to persist"),
    "lazy_subclass": is_("wrong_type"),
    "patched_event": is_("tampering", says="Event"),
    "cache_by_address": is_("stale_output"),
    "filled_once": is_("stale_output"),
    # What is recorded are launches: its Python decides nothing any more.
    "remembers_in_the_contest": is_("stale_output", "correct", may_win=False),
    "skips_in_the_contest": is_("wrong_numbers", "stale_output", "correct", may_win=False),
    "static_buffer": is_("stale_output"),
    "leaves_known_answers": is_("stale_output", "wrong_numbers"),
    "empty": is_("incomplete_output", "wrong_numbers"),
    "half_written": is_("incomplete_output"),
    "zeroes_its_inputs": is_("input_mutated"),
    "half_precision": is_("lower_precision"),
    "raises_on_hard_shapes": is_("runtime_error", says="multiple of 8"),
    "segfault": is_("crash"),
    "plainly_wrong": is_("wrong_numbers"),
    "honest": is_("correct"),
    "honest_scratch": is_("correct"),
    "honest_stream": is_("correct"),
    "honest_triton": is_("correct"),
}

SMALL_GPU = {
    "joins_recorded_calls": is_("wrong_numbers"),
    "joins_counted_calls": is_("stale_output", says="for several calls at once"),
    "plainly_wrong": is_("wrong_numbers"),
    "honest": is_("correct"),
}

MIDDLE_GPU = {
    "leaves_known_answers": is_("stale_output", "wrong_numbers"),
    "honest": is_("correct"),
}

PRODUCT_GPU = {"tf32_product": is_("lower_precision")}


@dataclass(frozen=True)
class Suite:
    """One problem and the kernels that are judged on it in one call, in this order."""

    problem: Path
    pool: str
    order: tuple[str, ...]
    expected: dict[str, Expected] = field(repr=False)

    @property
    def always(self) -> set[str]:
        """What ``make test`` judges: of some problems every sixth kernel, and those of which other tests ask."""
        some = self.order[::6] if self.problem.stem in OFTEN or self.pool == "gpu" else ()
        return {*some, *(ASKED & set(self.order))}

    def path(self, name: str) -> Path:
        """The kernel's file; what is written for one device may serve on the other."""
        own = "cuda" if self.pool == "gpu" else "cpu"
        return next(path for folder in (own, "cpu") if (path := KERNELS / folder / f"{name}.py").exists())


def _suite(problem: str, expected: dict[str, Expected], before: tuple[str, ...] = (), pool: str = "cpu") -> Suite:
    rest = tuple(name for name in expected if name not in before)
    return Suite(PROBLEMS / f"{problem}.py", pool, (*before, *rest), expected)


SUITES = {
    "rows": _suite(
        "rows",
        {**ATTACKS, **CONTROLS, **ROWS, **FREEZING, **ANSWERS, **WHEN_TIMED},
        tuple(name for pair in AFTER.items() for name in pair),
    ),
    "small": _suite("small", SMALL | {"plainly_wrong": is_("wrong_numbers", naive=False)}),
    "shares": _suite("shares", SHARES),
    "pair": _suite("pair", PAIR),
    "product": _suite("product", PRODUCT),
    "average": _suite("average", AVERAGE),
    "batchnorm": _suite("batchnorm", BATCHNORM),
    "step": _suite("step", STEP),
    "scores": _suite("scores", SCORES),
    "loss": _suite("loss", LOSS),
    "distance": _suite("distance", DISTANCE),
    "two_sizes": _suite("two_sizes", TWO_SIZES),
    "rows_gpu": _suite("rows_gpu", ROWS_GPU, pool="gpu"),
    "small_gpu": _suite("small_gpu", SMALL_GPU, pool="gpu"),
    "middle_gpu": _suite("middle_gpu", MIDDLE_GPU, pool="gpu"),
    "product_gpu": _suite("product_gpu", PRODUCT_GPU, pool="gpu"),
}

OFTEN = {"rows", "small"}
ASKED = {*AFTER, *AFTER.values(), "decoy", "half_precision", "half_precision_with_text", "honest_weights"}
"""Kernels of which more than one test asks."""

POOLS = {
    "cpu": """
platform = "cpu"
languages = ["cpp"]
threads = 2
baselines = ["eager"]
candidate_seconds = 10.0
candidate_memory_bytes = 4294967296
""",
    "gpu": """
platform = "nvidia"
languages = ["triton", "cuda"]
baselines = ["eager"]
candidate_seconds = 30.0
""",
}
"""A user's own pools: compiling baselines would cost minutes, and waiting for an endless loop a minute."""

MOST_SECONDS = 900.0

WHOLE = ("-m", "kernelswarm.cli")
JUDGED = (brief.__file__,)
"""The same judge; what follows its verdict is brief, and nobody asks for it here."""


class Judge:
    """The command line, with a home of its own."""

    def __init__(self, home: Path, kernels: Mapping[str, Iterable[str]] | None = None) -> None:
        """``kernels``: names of the kernels to judge, by suite; by default all."""
        self._home = home
        self._kernels = kernels
        (home / "pools").mkdir()
        for name, text in POOLS.items():
            (home / "pools" / f"{name}.toml").write_text(text)
        self.evaluations = cache(self._verdicts)

    def evaluate(
        self, problem: Path, *candidates: Path, pool: str = "cpu", program: tuple[str, ...] = WHOLE
    ) -> subprocess.CompletedProcess[str]:
        """``kernelswarm evaluate PROBLEM CANDIDATE... --json``."""
        environment = {"KERNELSWARM_HOME": str(self._home), "KERNELSWARM_NATS": "", "BRIEF": "after-judging"}
        return subprocess.run(
            [sys.executable, *program, "evaluate", problem, *candidates, "--pool", pool, "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=MOST_SECONDS,
            check=False,
        )

    def _verdicts(self, suite: str) -> list[dict[str, Any]]:
        """What was said of each kernel of a suite, in its order."""
        spec, order = SUITES[suite], self.order(suite)
        done = self.evaluate(spec.problem, *map(spec.path, order), pool=spec.pool, program=JUDGED)
        verdicts = [json.loads(line) for line in done.stdout.splitlines()]
        assert [Path(verdict["candidate"]).stem for verdict in verdicts] == order, done.stderr
        assert done.returncode == int(not all(verdict["correct"] for verdict in verdicts)), done.stderr
        return verdicts

    def order(self, suite: str) -> list[str]:
        """Names of the kernels of a suite that are judged, in this order."""
        spec = SUITES[suite]
        chosen = spec.order if self._kernels is None else {*spec.always, *self._kernels.get(suite, ())}
        return [name for name in spec.order if name in chosen]

    def of(self, suite: str, kernel: str) -> list[dict[str, Any]]:
        """What was said of a kernel, each time that it was judged."""
        return [
            verdict for verdict, name in zip(self.evaluations(suite), self.order(suite), strict=True) if name == kernel
        ]
