"""The C++ look-ups against torch.bucketize and torch.searchsorted: every algorithm, key, side, result type."""

import ctypes
import itertools
import shutil
import subprocess

import pytest
import torch

from kernelswarm.codegen.cpp import lookup as cpp_lookup

KEYS = {"float32": "float", "float64": "double", "int32": "int32_t", "int64": "int64_t", "int16": "int16_t"} | {
    "uint8": "uint8_t"
}
FLAGS = ["-O3", "-march=native", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"]

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def tables(dtype, draw):
    real = dtype.is_floating_point
    yield torch.empty(0, dtype=dtype)
    for size in (1, 2, 3, 7, 8, 63, 64, 65, 100, 1000):
        spread = torch.randn(size, generator=draw, dtype=torch.float64) * 40 + 60
        yield spread.clamp(0, 120).to(dtype).sort().values  # duplicates where the type is an integer
        yield torch.full((size,), 5, dtype=dtype)
        yield torch.randint(0, 4, (size,), generator=draw).to(dtype).sort().values
        if real:
            yield torch.exp(15 * torch.randn(size, generator=draw)).to(dtype).sort().values  # nearly all in one cell
            yield torch.cat([spread.to(dtype), torch.tensor([-torch.inf, torch.inf], dtype=dtype)]).sort().values
            biggest = torch.finfo(dtype).max
            yield torch.cat([spread.to(dtype), torch.tensor([-biggest, biggest], dtype=dtype)]).sort().values
        else:
            ends = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max], dtype=dtype)
            yield torch.cat([spread.clamp(0, 120).to(dtype), ends]).sort().values


def queries(table, draw):
    dtype = table.dtype
    near = table[torch.randint(0, len(table), (150,), generator=draw)] if len(table) else table
    parts = [near, (torch.rand(150, generator=draw) * 125).to(dtype)]
    if dtype.is_floating_point:
        parts.append(torch.nextafter(near, torch.full_like(near, torch.inf)))
        limits = torch.finfo(dtype)
        parts.append(torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, limits.max, limits.min], dtype=dtype))
    else:
        limits = torch.iinfo(dtype)
        parts.append(torch.tensor([limits.min, limits.max, 0, 1], dtype=dtype))
    mixed = torch.cat(parts)
    mixed = mixed[torch.randperm(len(mixed), generator=draw)]
    return [mixed, mixed.sort().values, mixed[:1], mixed[:0], mixed[:64]]


def look_up(library, name, key, right, table, x, out):
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (table, x, out)]
    function = getattr(library, f"{name}_{key}_{int(right)}_{'int' if out.dtype == torch.int32 else 'long'}")
    function(pointers[0], ctypes.c_int64(len(table)), pointers[1], pointers[2], ctypes.c_int64(len(x)))


def compared(path, algorithms, keys):
    """How many look-ups of a library were compared with PyTorch's."""
    library, draw, count = ctypes.CDLL(path), torch.Generator().manual_seed(11), 0
    for key in keys:
        for table in tables(getattr(torch, key), draw):
            for x, right, kind in itertools.product(queries(table, draw), (False, True), (torch.int32, torch.int64)):
                want = torch.bucketize(x, table, right=right, out_int32=kind == torch.int32)
                for name in algorithms:
                    out = torch.full(x.shape, -7, dtype=kind)
                    look_up(library, name, key, right, table, x, out)
                    count += len(x)
                    assert torch.equal(out, want), f"{name} {key} right={right} table={table} x={x}"

    rows = torch.randn(5, 33, generator=draw).sort(dim=1).values
    x = torch.randn(5, 70, generator=draw)
    want = torch.searchsorted(rows, x, right=True)
    for name in algorithms:
        out = torch.full(x.shape, -7, dtype=torch.int64)
        for row in range(5):
            look_up(library, name, "float32", True, rows[row], x[row], out[row])
        assert torch.equal(out, want), name
    return count


def exported(name, key, right, result):
    kind = {"int": "int32_t", "long": "int64_t"}[result]
    type_ = KEYS[key]
    index = cpp_lookup.index_statement(name, key=type_, index="g", table="t", length="n")
    call = cpp_lookup.call(name, right=right, index="g", table="t", length="n", queries="x", results="y", count="m")
    arguments = f"const {type_}* t, int64_t n, const {type_}* x, {kind}* y, int64_t m"
    return f'extern "C" void {name}_{key}_{int(right)}_{result}({arguments}) {{ {index} {call} }}\n'


def compiled(folder, source, *flags):
    path = folder / "lookup.cpp"
    path.write_text(source)
    command = ["g++", *FLAGS, *flags, "-Wall", "-Wextra", "-Werror", path, "-o", folder / "lookup.so"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "lookup.so"


@pytest.mark.thorough
def test_every_algorithm_agrees_with_torch(tmp_path):
    source = cpp_lookup.snippet(cpp_lookup.ALGORITHMS)
    for name in cpp_lookup.ALGORITHMS:
        for key in KEYS:
            source += "".join(exported(name, key, right, kind) for right in (False, True) for kind in ("int", "long"))
    library = compiled(tmp_path, source, "-O1")
    assert compared(library, cpp_lookup.ALGORITHMS, KEYS) > 1_000_000


@pytest.mark.parametrize("name", ["branchless_tiled", "linear_count", "grid"])
def test_the_optimised_code_agrees_with_torch_and_is_vector_code(tmp_path, name):
    report = tmp_path / "vectorised.txt"
    keys = ["float32", "int64"]
    source = cpp_lookup.snippet([name]) + "".join(
        exported(name, key, right, kind) for key in keys for right in (False, True) for kind in ("int", "long")
    )
    library = compiled(tmp_path, source, f"-fopt-info-vec-optimized={report}")
    assert report.read_text().count("loop vectorized") >= 4
    assert compared(library, [name], keys)


def test_only_the_named_algorithms_are_emitted():
    text = cpp_lookup.snippet(["linear_count"])
    assert "ks_lookup_one" in text
    assert "ks_index_grid" not in text
    with pytest.raises(KeyError, match="bogo"):
        cpp_lookup.snippet(["bogo"])
