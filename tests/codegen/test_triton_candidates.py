"""Triton candidates without a GPU: numbers by Triton's interpreter, machine code for an H200 by its compiler."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from case_names import OPERATORS, names_of

HERE = Path(__file__).parent
SCRIPT = HERE / "triton_candidates.py"


PRODUCTS = [
    name
    for part in ("products", "chains", "convolution", "recurrent")
    for name in names_of(HERE / f"triton_{part}_cases.py")
]
NAMES = [*OPERATORS, *PRODUCTS]
COPIED = {"transposed_window", "convolution_in_tf32"}
"""Filters are made of others."""

COMPILED = [
    "rmsnorm", "softmax_online", "cross_entropy_online", "split_sum", "split_columns", "persistent_rows", "long_rows",
    "gathers", "concatenations", "mapid", "integers", "half_precision", "running_sums", "matmul", "pffn", "optfm",
    "attention_causal", "attention_spelled", "conv1d", "conv_residual", "conv_full", "made_operands", "skinny",
    "stream_product", "max_pool", "mean_pool", "depthwise", "welford_rows", "welford_columns", "rows_ahead",
    "welford_parts_of_columns", "welford_parts_of_planes", "welford_parts_with_channels_last", "held_columns",
    "columns_too_long_to_be_held",
    "rows_in_powers_of_two", "conv1d_half", "pffn_half", "optfm_half", "pooled_convolution",
    "extremes_over_dimensions", "running_products", "scanned_columns", "softmax_of_channels",
    "convolution_of_few_channels",
    "convolution_of_volumes", "transposed_in_groups", "transposed_volumes_half", "split_3xtf32",
    "padded_otherwise", "resampled", "scaled_by_sizes", "recurrence", "recurrence_half", "lstm_on_many_programs",
    "gru_in_both_directions", "lstm_in_half_precision",
]  # fmt: skip
"""One of every kind."""
FUSED = {
    "rmsnorm": 1, "softmax": 1, "cross_entropy": 2, "linear_gelu": 1, "pffn": 2, "attention_spelled": 1, "conv1d": 2,
    "softmax_of_product": 1, "optfm": 2, "split_sum": 3, "conv2d": 2, "conv_full": 2, "conv_twice": 3,
    "split_linear": 2, "split_softmax": 2, "skinny": 2, "stream_product": 2, "max_pool": 2, "depthwise_line": 1,
    "conv1d_half": 2, "pffn_half": 2, "optfm_half": 2, "welford_rows": 1, "made_operands": 1,
    "held_columns": 1,
    "rows_in_powers_of_two": 1, "product_in_powers_of_two": 1, "split_3xtf32": 2, "split_3xtf32_linear": 2,
    "convolution_of_few_channels": 2, "convolution_of_volumes": 3, "transposed_in_groups": 2, "linear_of_one_row": 1,
    "RepeatedLayers": 3, "recurrence": 4, "recurrence_half": 1, "LstmLayers": 1, "GruBothWays": 2,
}  # fmt: skip
"""How many kernels an operator becomes; those that repeat each other but for names count once."""

NORMS = "library_norms_with_channels_last"
ALWAYS = {*COMPILED[::2], *FUSED, NORMS}
EACH = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.thorough) for name in NAMES]
)
"""The interpreter takes two minutes for all of them."""


def _run(script, *arguments, **environment):
    variables = {**os.environ, "PYTHONWARNINGS": "ignore", "TRITON_DEFAULT_FP_FUSION": "1", **environment}
    return subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, env=variables, timeout=900
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    """The candidates that are asked for, and the report on their numbers."""
    for package in ("torch", "triton"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    directory = tmp_path_factory.mktemp("triton")
    here = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    names = sorted({*ALWAYS, *(item.callspec.params["name"] for item in here)})
    folders = os.pathsep.join([str(HERE), str(HERE.parent / "support"), os.environ.get("PYTHONPATH", "")])

    path = directory / "report.json"
    done = _run(SCRIPT, str(path), *names, TRITON_INTERPRET="1", PYTHONPATH=folders, OMP_NUM_THREADS="1")
    assert path.exists(), done.stderr[-3000:]
    return directory


@pytest.fixture(scope="module")
def report(folder):
    return json.loads((folder / "report.json").read_text())


@EACH
def test_numbers_are_those_of_eager(report, name):
    assert report[name]["differences"] == []
    assert report[name]["kernels"] > 0
    assert "input 0" not in report[name]["fallbacks"]


def test_no_shape_of_the_problem_is_too_long_to_be_held(report):
    assert "input 1" not in report["columns_too_long_to_be_held"]["fallbacks"]
    assert report["columns_too_long_to_be_held"]["kernels"] > 1


@EACH
def test_every_launch_is_compiled_ahead_wherever_inputs_lie(report, name):
    assert report[name]["unlisted"] == []
    assert not {"strided", "padded", "misaligned", "expanded"} & set(report[name]["fallbacks"])


def test_nothing_is_copied_that_lies_as_in_the_reference(report):
    assert {name for name, entry in report.items() if "input 0" in entry["copies"]} <= COPIED


def test_what_is_the_same_for_a_row_is_computed_once(folder, report):
    text = (folder / f"{NORMS}.py").read_text()
    kernels = {body.partition("(")[0]: body for body in text.split("def kernel")[1:]}
    written = [body for name, body in kernels.items() if "_write" in name]
    assert written and not any("rsqrt(" in body.partition("@triton.jit")[0] for body in written)


@pytest.mark.parametrize(("name", "kernels"), FUSED.items())
def test_fuses_into(report, name, kernels):
    assert report[name]["kernels"] == kernels


def test_launches_are_a_literal_that_names_every_kernel(folder, report):
    for name in report:
        tree = ast.parse((folder / f"{name}.py").read_text())
        (launches,) = [
            ast.literal_eval(n.value)
            for n in tree.body
            if isinstance(n, ast.Assign) and n.targets[0].id == "TRITON_LAUNCHES"
        ]
        launched = {launch["kernel"] for launch in launches}
        functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        for launch in launches:
            assert set(launch["arguments"]) == {a.arg for a in functions[launch["kernel"]].args.args}
        assert launched <= functions.keys()


def test_compiles_for_an_h200_without_one(folder, report):
    chosen = [name for name in COMPILED if name in report]
    done = _run(HERE / "triton_cubin.py", *(str(folder / f"{name}.py") for name in chosen))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    sizes = json.loads(done.stdout.splitlines()[-1])
    assert set(sizes) == set(chosen)
    assert all(size > 0 for kernels in sizes.values() for size in kernels)
