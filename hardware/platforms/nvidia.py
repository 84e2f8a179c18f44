"""NVIDIA's GPUs of this machine."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ...schemas import Accelerator, HardwareFacts, Pool, PoolError
from ..machine.cpu_facts import memory_bytes, usable_cores
from ..machine.gpu_peaks import gpu_peaks, installed
from ..machine.nvml import find_devices

NAME = "nvidia"
_REGISTER_BYTES = 16
"""Widest load of one thread."""


def detect(pool: Pool, home: Path, *, refresh: bool = False) -> HardwareFacts:
    """Facts of this machine's GPUs that fit ``pool``; peaks are measured on the first of them, once.

    Raises:
        PoolError: there is no such GPU, or torch cannot use it; the message says what to do.
        InputError: ``home`` cannot be written.
    """
    gpu_facts = find_devices()
    devices = chosen(gpu_facts.accelerators, pool, os.environ)
    peaks = gpu_peaks(pool, devices[0], gpu_facts.driver, home, refresh=refresh)
    measured = tuple(
        replace(
            device,
            multiprocessors=peaks.multiprocessors,
            l2_bytes=peaks.l2_bytes,
            shared_bytes=peaks.shared_bytes,
        )
        for device in devices
    )
    return HardwareFacts(
        device=devices[0].name,
        cores=usable_cores(),
        isa=(devices[0].target,),
        vector_bytes=_REGISTER_BYTES,
        l2_bytes=peaks.l2_bytes,
        l3_bytes=0,
        memory_bytes=memory_bytes(),
        copy_gbps=peaks.copy_gbps,
        peak_gflops=peaks.matmul_gflops.get("fp32", 0.0),
        torch=installed("torch"),
        bandwidths=peaks.bandwidths,
        accelerators=measured,
        matmul_gflops=peaks.matmul_gflops,
        versions={"driver": gpu_facts.driver, "cuda": peaks.cuda, "triton": installed("triton")},
    )


def for_compiling(pool: Pool) -> HardwareFacts:
    """What a machine without the pool's GPU knows of it: enough to compile, too little to run anything.

    Raises:
        PoolError: the pool's file names no target.
    """
    if not pool.target:
        raise PoolError(f'pool {pool.name!r} has no target: add target = "sm_90" to its file to compile without a GPU')
    return HardwareFacts(
        device=f"{pool.target} (compiling only)",
        cores=usable_cores(),
        isa=(pool.target,),
        vector_bytes=_REGISTER_BYTES,
        l2_bytes=0,
        l3_bytes=0,
        memory_bytes=memory_bytes(),
        copy_gbps=0.0,
        peak_gflops=0.0,
        torch=installed("torch"),
        versions={"triton": installed("triton")},
    )


def chosen(accelerators: Sequence[Accelerator], pool: Pool, environment: Mapping[str, str]) -> tuple[Accelerator, ...]:
    """The devices to use: visible by ``CUDA_VISIBLE_DEVICES``, named by the pool, and all of one kind.

    Raises:
        PoolError: none is left; the message says what there is.
    """
    there = ", ".join(f"{device.index}: {device.name} ({device.target})" for device in accelerators)
    visible = _visible(accelerators, environment)
    devices = [device for device in visible if not pool.devices or device.index in pool.devices]
    if not devices:
        raise PoolError(
            f"pool {pool.name!r} may use no GPU of this machine ({there}): mind its `devices` and CUDA_VISIBLE_DEVICES"
        )
    target = pool.target or devices[0].target
    alike = tuple(device for device in devices if device.target == target)
    if not alike:
        raise PoolError(f"pool {pool.name!r} is for {target}, and this machine has {there}")
    return tuple(device for device in alike if device.name == alike[0].name)


def _visible(accelerators: Sequence[Accelerator], environment: Mapping[str, str]) -> list[Accelerator]:
    visible_devices = environment.get("CUDA_VISIBLE_DEVICES")
    if visible_devices is None:
        return list(accelerators)
    names = [name.strip() for name in visible_devices.split(",") if name.strip()]
    return [
        device
        for device in accelerators
        if any(name == str(device.index) or (not name.isdecimal() and device.uuid.startswith(name)) for name in names)
    ]
