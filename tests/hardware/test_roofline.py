"""The roofline's arithmetic."""

import pytest
from msgspec.structs import replace

from kernelswarm.hardware.machine.roofline import bandwidth_gbps, roofline
from kernelswarm.schemas import HardwareFacts, Work

MACHINE = HardwareFacts(
    device="test",
    cores=2,
    isa=(),
    vector_bytes=64,
    l2_bytes=1 << 20,
    l3_bytes=0,
    memory_bytes=1 << 34,
    copy_gbps=10.0,
    peak_gflops=100.0,
    bandwidths=((1_000_000, 80.0), (10_000_000, 20.0), (100_000_000, 10.0)),
)


def test_moving_bytes_limits():
    estimate = roofline(Work(read_bytes=150_000_000, write_bytes=50_000_000, flops=1_000_000), MACHINE, 40.0)
    assert (estimate.limit, estimate.floor_ms, estimate.fraction) == ("memory", pytest.approx(20.0), pytest.approx(0.5))


def test_arithmetic_limits():
    estimate = roofline(Work(read_bytes=1000, write_bytes=1000, flops=10**9), MACHINE, 20.0)
    assert (estimate.limit, estimate.floor_ms, estimate.fraction) == (
        "compute",
        pytest.approx(10.0),
        pytest.approx(0.5),
    )


@pytest.mark.parametrize(
    ("size", "speed"),
    [(0, 80.0), (1_000_000, 80.0), (9_999_999, 80.0), (10_000_000, 20.0), (99_999_999, 20.0), (10**12, 10.0)],
)
def test_the_bandwidth_is_that_of_the_largest_set_that_is_not_larger(size, speed):
    assert bandwidth_gbps(MACHINE, size) == speed


def test_matrix_units_have_a_peak_of_their_own_by_precision():
    gpu = replace(MACHINE, matmul_gflops={"fp32": 100.0, "tf32": 400.0, "bf16": 800.0})
    work = Work(read_bytes=1000, write_bytes=1000, flops=8 * 10**8)
    floors = {dtype: roofline(work, gpu, 20.0, dtype=dtype).floor_ms for dtype in ("bfloat16", "float32", "float64")}
    assert floors == pytest.approx({"bfloat16": 1.0, "float32": 2.0, "float64": 8.0})


def test_without_a_table_the_copy_bandwidth_counts():
    assert bandwidth_gbps(replace(MACHINE, bandwidths=()), 5) == 10.0


def test_a_time_below_the_floor_is_not_hidden():
    assert roofline(Work(read_bytes=10**9, write_bytes=0, flops=0), MACHINE, 50.0).fraction == pytest.approx(2.0)


@pytest.mark.parametrize("time", [0.0, -1.0, float("nan")])
def test_no_time_is_refused(time):
    with pytest.raises(ValueError, match="is no time"):
        roofline(Work(read_bytes=1, write_bytes=1, flops=1), MACHINE, time)


def test_an_unmeasured_machine_is_refused():
    with pytest.raises(ValueError, match="not measured"):
        roofline(Work(read_bytes=1, write_bytes=1, flops=1), replace(MACHINE, peak_gflops=0.0), 1.0)
