"""The C++ math functions against float64, and the vector code that compilers make of them."""

import ctypes
import math
import platform
import shutil
import subprocess

import numpy as np
import pytest

from kernelswarm.codegen.cpp import math as cpp_math

FLAGS = ["-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"]
GATHERS = ["-mtune=haswell"] if platform.machine() == "x86_64" else []
"""GCC's tuning for some processors (AMD's Zen 1 to 3) avoids gathers: there a sine reads its table one by one."""
SMALLEST = 2.0**-126
erf = np.vectorize(math.erf, otypes=[float])
erfc = np.vectorize(math.erfc, otypes=[float])
EXACT = {
    "exp": np.exp,
    "exp_down": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "erf": erf,
    "gelu": lambda x: 0.5 * x * erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "sin": np.sin,
    "cos": np.cos,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "relu": lambda x: np.maximum(x, 0),
    "abs": np.abs,
}
WRITTEN = sorted(key for key in cpp_math.ERROR_ULP if key[0] in EXACT and key[1] != "libm")
PAIRS = {"maximum": "accurate", "minimum": "accurate", "fmax": "accurate", "fmin": "accurate", "pow": "accurate"} | {
    "remainder": "accurate",
    "fmod": "accurate",
    "floor_div": "accurate",
}

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def loop(name, level, arguments="x"):
    parameters = ", ".join(f"const float* __restrict {a}" for a in arguments)
    call = ", ".join(f"{a}[i]" for a in arguments)
    return (
        f'extern "C" void loop_{name}_{level}({parameters}, float* __restrict out, long n) {{\n'
        f"#pragma omp simd\nfor (long i = 0; i < n; ++i) out[i] = ks_{name}_{level}({call});\n}}\n"
    )


def compiled(folder, source, *flags):
    """The file that comes out, and the lines of ``source`` with a loop that became vector code."""
    (folder / "math.cpp").write_text(source)
    report, out = folder / "vectorised.txt", folder / "math.so"
    report.write_text("")
    command = ["g++", *FLAGS, *flags, "-Wall", "-Wextra", "-Werror", f"-fopt-info-vec-optimized={report}"]
    done = subprocess.run([*command, folder / "math.cpp", "-o", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = {int(line.split(":")[1]) for line in report.read_text().splitlines() if "loop vectorized" in line}
    return out, lines


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    source = cpp_math.snippet([*WRITTEN, *PAIRS.items()])
    source += "".join(loop(*key) for key in WRITTEN) + "".join(loop(*key, "xy") for key in PAIRS.items())
    out, lines = compiled(tmp_path_factory.mktemp("math"), source, *GATHERS)
    return ctypes.CDLL(str(out)), source.splitlines(), lines


def call(library, name, level, *inputs):
    out = np.empty_like(inputs[0])
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*inputs, out)]
    getattr(library, f"loop_{name}_{level}")(*pointers, ctypes.c_long(out.size))
    return out


def samples():
    """Every binade and sign with the special values, and dense where the functions bend."""
    everywhere = np.arange(0, 2**32, 6151, dtype=np.uint64).astype(np.uint32).view(np.float32)
    bends = [np.linspace(-edge, edge, 60_001, dtype=np.float32) for edge in (1, 5, 20, 110)]
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32)
    return np.concatenate([everywhere, *bends, special])


def ulps(got, exact, magnitude):
    exponent = np.floor(np.log2(np.maximum(magnitude, SMALLEST)))
    return np.abs(got.astype(np.float64) - exact) / 2.0 ** (exponent - 23)


def scale_of_error(scale, x, exact):
    """What an error is relative to, by the table."""
    if scale == "argument":
        return np.where(x < 0, np.abs(x), np.abs(exact))
    return np.ones_like(exact) if scale == "one" else np.abs(exact)


@pytest.mark.parametrize(("name", "level"), WRITTEN)
def test_error_stays_within_the_table_and_special_values_come_out_as_in_libm(built, name, level):
    with np.errstate(all="ignore"):
        x = samples()
        wide = x.astype(np.float64)
        exact = EXACT[name](wide)
        rounded = exact.astype(np.float32)
        got = call(built[0], name, level, x)
        entry = cpp_math.TABLE[name, level]
        normal = np.isfinite(rounded) & (np.abs(rounded) >= SMALLEST) & (wide >= entry.low) & (wide <= entry.high)
        error = ulps(got, exact, scale_of_error(entry.scale, wide, exact))[normal]
    assert error.max() <= entry.ulp
    special = ~np.isfinite(rounded)
    np.testing.assert_array_equal(got[special], rounded[special])
    tiny = np.isfinite(rounded) & (np.abs(rounded) < SMALLEST) & (wide <= entry.high) & (wide >= -entry.high)
    assert np.all(np.abs(got[tiny] - exact[tiny]) <= 1e-5)


@pytest.mark.parametrize("level", ["accurate", "fast", "short"])
def test_nan_stays_nan(built, level):
    x = np.full(64, np.nan, np.float32)
    for name, written_level in WRITTEN:
        if written_level == level:
            assert np.isnan(call(built[0], name, level, x)).all(), name


def test_every_loop_became_vector_code(built):
    _, lines, vectorised = built
    loops = [number for number, line in enumerate(lines, 1) if line.startswith("for (long")]
    missed = [lines[number - 1] for number in loops if number not in vectorised]
    assert len(loops) == len(WRITTEN) + len(PAIRS)
    assert not missed


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names targets of x86")
@pytest.mark.parametrize("flags", [["-march=x86-64-v3"], ["-march=x86-64-v4", "-mprefer-vector-width=512"]])
def test_every_fast_loop_becomes_vector_code_for_256_and_512_bits(tmp_path, flags):
    keys = [key for key in WRITTEN if key[1] == "fast"]
    source = cpp_math.snippet(keys) + "".join(loop(*key) for key in keys)
    _, vectorised = compiled(tmp_path, source, *flags, "-S")
    lines = source.splitlines()
    assert [
        line for number, line in enumerate(lines, 1) if line.startswith("for (long") and number not in vectorised
    ] == []
    assert len(keys) >= 9


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_fast_functions_stay_inside_their_range(built, name):
    got = call(built[0], name, "fast", samples())
    assert not (np.abs(got) > 1).any()


def pairs():
    draw = np.random.default_rng(5)
    some = np.array([0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 2.5, 1e-40, np.inf, -np.inf, np.nan, 3e38], np.float32)
    x, y = (grid.ravel() for grid in np.meshgrid(some, some))
    a = np.concatenate([draw.normal(0, 5, 40_000), np.exp(draw.normal(0, 8, 40_000)), draw.uniform(0.9, 1.1, 40_000)])
    b = np.concatenate([draw.normal(0, 3, 40_000), draw.integers(-9, 9, 40_000), draw.normal(0, 400, 40_000)])
    return np.concatenate([x, a]).astype(np.float32), np.concatenate([y, b]).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("maximum", np.maximum),
        ("minimum", np.minimum),
        ("fmax", np.fmax),
        ("fmin", np.fmin),
        ("fmod", np.fmod),
        ("remainder", None),
        ("pow", None),
    ],
)
def test_two_arguments(built, name, exact):
    x, y = pairs()
    with np.errstate(all="ignore"):
        got = call(built[0], name, "accurate", x, y)
        if name == "pow":
            want = np.power(x.astype(np.float64), y.astype(np.float64))
            normal = np.isfinite(want.astype(np.float32)) & (np.abs(want) >= SMALLEST)
            assert ulps(got, want, np.abs(want))[normal].max() <= cpp_math.ERROR_ULP["pow", "accurate"]
            np.testing.assert_array_equal(got[~normal], want.astype(np.float32)[~normal])
            return
        if exact is None:
            rest = np.fmod(x, y)
            exact = lambda x, y: np.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)  # noqa: E731
        np.testing.assert_array_equal(got, exact(x, y))


def test_remainders_of_quotients_of_any_size(built):
    """Beyond quotients of 2^53 the first step leaves more than the divisor."""
    draw = np.random.default_rng(7)
    exponents = draw.integers(-149, 128, (2, 200_000))
    x, y = (draw.uniform(-2, 2, 200_000) * np.exp2(n.astype(np.float64)) for n in exponents)
    x, y = x.astype(np.float32), y.astype(np.float32)
    y[::7] = x[::7] * np.float32(2**-9)
    with np.errstate(all="ignore"):
        rest = np.fmod(x, y)
        np.testing.assert_array_equal(call(built[0], "fmod", "accurate", x, y), rest)
        signed = np.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)
        np.testing.assert_array_equal(call(built[0], "remainder", "accurate", x, y), signed)


def test_floor_division_rounds_down(built):
    x = np.array([7, -7, 7, -7, 0, 5.5, 1, 3, -1, np.nan], np.float32)
    y = np.array([2, 2, -2, -2, 3, 0.1, 0, np.inf, 0, 1], np.float32)
    want = np.array([3, -4, -4, 3, 0, 54, np.inf, 0, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(call(built[0], "floor_div", "accurate", x, y), want)


def test_integers_divide_as_in_python(tmp_path):
    names = ["remainder", "floor_div", "maximum", "minimum"]
    source = cpp_math.snippet([(name, "accurate") for name in names])
    for name in names:
        source += f'extern "C" int64_t whole_{name}(int64_t a, int64_t b) {{ return ks_{name}_accurate(a, b); }}\n'
    (tmp_path / "whole.cpp").write_text(source)
    subprocess.run(["g++", *FLAGS, tmp_path / "whole.cpp", "-o", tmp_path / "whole.so"], check=True)
    library = ctypes.CDLL(str(tmp_path / "whole.so"))
    for name, expected in zip(names, (lambda a, b: a % b, lambda a, b: a // b, max, min), strict=True):
        function = getattr(library, f"whole_{name}")
        function.argtypes, function.restype = [ctypes.c_int64] * 2, ctypes.c_int64
        for a, b in [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (-6, 3), (0, -5), (2**62, -7)]:
            assert function(a, b) == expected(a, b), (name, a, b)


def test_only_what_is_needed_is_emitted_and_dependencies_come_first():
    text = cpp_math.snippet([("gelu_tanh", "accurate"), ("silu", "accurate")])
    places = [text.index(f"float ks_{name}_accurate(float") for name in ("exp", "sigmoid", "gelu_tanh")]
    assert places == sorted(places)
    assert "ks_erf" not in text
    assert text.count("float ks_exp_accurate(") == 1


def test_a_missing_level_is_served_by_a_stricter_one_and_an_unknown_name_is_refused():
    assert cpp_math.symbol("floor", "fast") == "ks_floor_accurate"
    assert cpp_math.symbol("sin", "fast") == "ks_sin_accurate"
    assert cpp_math.symbol("exp", "short") == "ks_exp_fast"
    assert cpp_math.symbol("cosh", "accurate") == "ks_cosh_libm"
    with pytest.raises(KeyError, match="no C\\+\\+ function 'frobnicate'"):
        cpp_math.symbol("frobnicate", "fast")
