"""``kernelswarm pools`` on a machine with GPUs."""

import json

import pytest
from msgspec.structs import replace

import given
from kernelswarm.cli.commands import pools
from kernelswarm.schemas import Accelerator, PoolError


def test_pools_tell_what_the_devices_are_and_can_do(kernelswarm, monkeypatch: pytest.MonkeyPatch):
    accelerator = Accelerator(
        index=0, name="NVIDIA H200", uuid="GPU-1", target="sm_90", memory_bytes=150_754_820_096, multiprocessors=132,
        l2_bytes=60_000_000, shared_bytes=232448, max_clock_mhz=1980, power_limit_watts=700.0,
    )  # fmt: skip
    facts = replace(
        given.hardware(device="NVIDIA H200"),
        accelerators=(accelerator, replace(accelerator, index=1, uuid="GPU-2")),
        matmul_gflops={"bf16": 790_000.0, "fp8": 1_400_000.0},
        versions={"driver": "580.159.04"},
    )
    monkeypatch.setattr(pools, "detect", lambda *_, **__: facts)
    printed = " ".join(kernelswarm("pools").out.split())
    assert "2 x NVIDIA H200" in printed and "sm_90, 132 multiprocessors, 151 GB, 60 MB L2, 227 KiB shared" in printed
    assert "at most 1980 MHz and 700 W" in printed and "driver 580.159.04" in printed
    assert "matrix products, TFLOP/s: bf16 790, fp8 1400" in printed


WHY = "no NVIDIA driver answers on this machine (NVML Shared Library Not Found): use another pool, or install it"


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(pool, *_, **__):
        if pool.platform == "nvidia":
            raise PoolError(WHY)
        return given.hardware()

    monkeypatch.setattr(pools, "detect", look)


@pytest.mark.usefixtures("without_gpu")
def test_a_pool_that_is_not_here_costs_the_table_no_width_and_says_in_full_why(kernelswarm):
    ran = kernelswarm("pools")
    assert "not here: no NVIDIA driver answers on this machine " in ran.out and WHY not in ran.out
    assert max(map(len, ran.out.splitlines())) <= 130
    assert "why not: kernelswarm pools h200" in ran.err
    assert f"h200 is not here: {WHY}" in kernelswarm("pools", "h200").out
    assert [row["problem"] for row in json.loads(kernelswarm("pools", "h200", "--json").out)] == [WHY]
    assert "did you mean 'cpu'" in kernelswarm("pools", "cpi").err


@pytest.mark.parametrize("watch", [(), ("--watch",)])
def test_with_nobody_there_the_table_is_empty_and_the_way_out_is_told(kernelswarm, watch):
    ran = kernelswarm("pools", "--live", *watch)
    heading, nobody = ran.out.splitlines()
    assert ran.status == 0 and heading.startswith("pool") and nobody == "nobody is there"
    assert "name a cluster with --nats URL" in ran.err
    silent = kernelswarm("pools", "--live", "--json", *watch)
    assert (silent.status, silent.out, silent.err) == (0, "[]\n", "")
