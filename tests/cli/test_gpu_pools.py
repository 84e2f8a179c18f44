"""``kernelswarm pools`` on a machine with GPUs."""

import pytest
from msgspec.structs import replace

import given
from kernelswarm.cli import pools
from kernelswarm.schemas import Accelerator


def test_pools_tell_what_the_devices_are_and_can_do(kernelswarm, monkeypatch: pytest.MonkeyPatch):
    one = Accelerator(
        index=0, name="NVIDIA H200", uuid="GPU-1", target="sm_90", memory_bytes=150_754_820_096, multiprocessors=132,
        l2_bytes=60_000_000, shared_bytes=232448, max_clock_mhz=1980, power_limit_watts=700.0,
    )  # fmt: skip
    facts = replace(
        given.hardware(device="NVIDIA H200"),
        accelerators=(one, replace(one, index=1, uuid="GPU-2")),
        matmul_gflops={"bf16": 790_000.0, "fp8": 1_400_000.0},
        versions={"driver": "580.159.04"},
    )
    monkeypatch.setattr(pools, "detect", lambda *_, **__: facts)
    printed = " ".join(kernelswarm("pools").out.split())
    assert "2 x NVIDIA H200" in printed and "sm_90, 132 multiprocessors, 151 GB, 60 MB L2, 227 KiB shared" in printed
    assert "at most 1980 MHz and 700 W" in printed and "driver 580.159.04" in printed
    assert "matrix products, TFLOP/s: bf16 790, fp8 1400" in printed
