"""Prints, as one JSON object, what the visible GPU is and can do at best. A program of its own, run in a child process.

Everything errs upward: best of several repetitions and access patterns, because a figure that is too low would call an
honest kernel impossible. Inputs are random: a product of zeros draws less power and runs faster. About five seconds.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

LARGEST_SET = 4 << 30
"""Bytes of both arrays together: many times any cache."""
REPEATS = 10
SIDE = 8192
FP32_SIDE = 4096
"""fp32 without the matrix units is a tenth as fast."""


def main() -> None:
    """Measure and print."""
    properties = torch.cuda.get_device_properties(0)
    bandwidths, copy = measured_bandwidths(properties)
    report = {
        "multiprocessors": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "shared_bytes": properties.shared_memory_per_block_optin,
        "cuda": torch.version.cuda or "",
        "copy_gbps": copy,
        "bandwidths": bandwidths,
        "matmul_gflops": dict(measured_products()),
    }
    sys.stdout.write(json.dumps(report) + "\n")


def measured_bandwidths(properties: Any) -> tuple[list[tuple[int, float]], float]:
    """Best bandwidth for each working set, sets ascending and bandwidths falling; and that of the largest copy."""
    largest = min(LARGEST_SET, properties.total_memory // 4)
    cache = properties.L2_cache_size or 32 << 20
    sets = [size for factor in (0.125, 0.25, 0.5, 1, 2, 4, 16) if (size := int(cache * factor)) < largest] + [largest]
    pool = torch.randn(largest // 4, device="cuda")
    bandwidths: list[tuple[int, float]] = []
    best = copy = 0.0
    for size in reversed(sets):
        copy_speed, direct_speed = _bandwidths_of(pool[: size // 4], size)
        copy = copy or copy_speed
        best = max(best, copy_speed, direct_speed)
        bandwidths.append((size, best))
    return bandwidths[::-1], copy


def _bandwidths_of(data: torch.Tensor, size: int) -> tuple[float, float]:
    """10^9 bytes a second of copying half of ``data`` to the other half, and the best of reading and of writing it."""
    half = data.numel() // 2
    source, target = data[:half], data[half : 2 * half]
    wide = data.view(-1, 1 << 12) if data.numel() % (1 << 12) == 0 else data.view(1, -1)
    moved = 2 * half * 4
    # A copy becomes a node of its own kind in a graph, which reaches 2.7 TB/s on an H200; a kernel reaches 4.2 there.
    copies = (lambda: target.copy_(source)), (lambda: torch.neg(source, out=target))
    copy = moved / min(map(_best_ms, copies)) / 1e6
    read = size / _best_ms(lambda: wide.amax(1)) / 1e6
    written = size / _best_ms(lambda: target.zero_()) / 2e6
    data.uniform_(-1, 1)
    return copy, max(read, written)


def measured_products() -> Iterator[tuple[str, float]]:
    """10^9 operations a second of large matrix products, by precision; what this GPU or torch lacks is left out."""
    torch.backends.cuda.matmul.allow_tf32 = False
    yield "fp32", _product(torch.float32, FP32_SIDE)
    torch.backends.cuda.matmul.allow_tf32 = True
    yield "tf32", _product(torch.float32, SIDE)
    yield "bf16", _product(torch.bfloat16, SIDE)
    yield "fp16", _product(torch.float16, SIDE)
    try:
        yield "fp8", _fp8_product(SIDE)
    except (RuntimeError, AttributeError, TypeError):
        return


def _product(dtype: torch.dtype, side: int) -> float:
    a, b = (torch.randn(side, side, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * side**3 / _best_ms(lambda: torch.mm(a, b, out=out)) / 1e6


def _fp8_product(side: int) -> float:
    a, b = (torch.randn(side, side, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.ones((), device="cuda")

    def multiply() -> object:
        return torch._scaled_mm(a, b.t(), scale, scale, out_dtype=torch.bfloat16, use_fast_accum=True)

    return 2 * side**3 / _best_ms(multiply) / 1e6


def _best_ms(call: Callable[[], object]) -> float:
    """Best time of one call, milliseconds; short calls are timed as a graph of many, so that launching hides."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
        once = _timed_ms(call)
        calls = max(1, min(200, int(2.0 / max(once, 1e-3))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(calls):
                call()
        graph.replay()
        return min(_timed_ms(graph.replay) for _ in range(REPEATS)) / calls


def _timed_ms(call: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


if __name__ == "__main__":
    main()
