"""The NVIDIA platform: which devices a pool uses, what is measured once, and what a machine without a GPU is told."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernelswarm.hardware.doctor import Status, examine
from kernelswarm.hardware.machine import gpu_peaks, nvml
from kernelswarm.hardware.machine.gpu_peaks import GpuPeaks
from kernelswarm.hardware.machine.nvml import find_devices
from kernelswarm.hardware.platforms import detect, nvidia
from kernelswarm.hardware.pools.pool_files import find_pool
from kernelswarm.schemas import Accelerator, HardwareFacts, Pool, PoolError, decode, encode

POOL = Pool(name="h200", platform="nvidia", languages=("triton",), target="sm_90")


def device(index: int, target: str = "sm_90", name: str = "NVIDIA H200") -> Accelerator:
    return Accelerator(index=index, name=name, uuid=f"GPU-{index}aaa", target=target, memory_bytes=150 << 30)


FOUR = (device(0), device(1), device(2, "sm_80", "NVIDIA A100"), device(3))
PEAKS = GpuPeaks(
    multiprocessors=132, l2_bytes=60 << 20, shared_bytes=232448, cuda="13.0", copy_gbps=4300.0,
    bandwidths=((30 << 20, 9000.0), (4 << 30, 4400.0)),
    matmul_gflops={"fp32": 5e4, "tf32": 4e5, "bf16": 7.9e5, "fp16": 7.9e5, "fp8": 1.4e6},
)  # fmt: skip


def has_gpu() -> bool:
    try:
        return bool(find_devices().accelerators)
    except PoolError:
        return False


without_gpu = pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")


@without_gpu
def test_a_machine_without_a_gpu_is_told_so_in_a_sentence(tmp_path):
    with pytest.raises(PoolError, match="no NVIDIA driver answers on this machine") as caught:
        detect(find_pool("h200", tmp_path), tmp_path)
    assert "\n" not in str(caught.value)
    checks = {check.name: check for check in examine(find_pool("h200", tmp_path), tmp_path)}
    assert checks["gpu"].status is Status.fail and "swarm --roles compiler" in checks["gpu"].way_out
    assert checks["triton"].status is Status.ok and "compiler" not in checks


@pytest.mark.parametrize(
    ("pool", "environment", "indices"),
    [
        ({}, {}, (0, 1, 3)),
        ({"devices": (1, 3)}, {}, (1, 3)),
        ({"target": ""}, {}, (0, 1, 3)),
        ({"target": "", "devices": (2,)}, {}, (2,)),
        ({}, {"CUDA_VISIBLE_DEVICES": "3,2"}, (3,)),
        ({}, {"CUDA_VISIBLE_DEVICES": "GPU-1aaa"}, (1,)),
    ],
)
def test_a_pool_uses_its_devices_that_are_alike(pool, environment, indices):
    changed = replace(POOL, **pool)
    assert tuple(accelerator.index for accelerator in nvidia.chosen(FOUR, changed, environment)) == indices


@pytest.mark.parametrize(
    ("pool", "environment", "message"),
    [
        ({"devices": (7,)}, {}, "may use no GPU of this machine .*2: NVIDIA A100"),
        ({}, {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES"),
        ({"target": "sm_100"}, {}, "is for sm_100, and this machine has 0: NVIDIA H200"),
    ],
)
def test_a_pool_that_nothing_fits_is_told_what_there_is(pool, environment, message):
    with pytest.raises(PoolError, match=message):
        nvidia.chosen(FOUR, replace(POOL, **pool), environment)


def test_peaks_are_measured_once_and_kept_with_the_pool(tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(gpu_peaks, "measure", lambda accelerator: measured.append(accelerator.uuid) or PEAKS)
    monkeypatch.setattr(
        nvidia, "find_devices", lambda: nvml.InstalledGpus(accelerators=FOUR, driver="580.1", cuda="13.0")
    )
    facts = detect(POOL, tmp_path)
    assert detect(POOL, tmp_path) == facts and measured == ["GPU-0aaa"]
    assert (facts.device, facts.isa, len(facts.accelerators)) == ("NVIDIA H200", ("sm_90",), 3)
    assert facts.accelerators[2].shared_bytes == 232448 and facts.peak_gflops == 5e4 and facts.copy_gbps == 4300.0
    assert facts.versions["driver"] == "580.1" and decode(encode(facts), HardwareFacts) == facts
    detect(POOL, tmp_path, refresh=True)
    assert len(measured) == 2
    (peaks_file,) = Path(tmp_path, "pools").glob("h200.*.json")
    assert "GPU-0aaa" in json.loads(peaks_file.read_text())["machine"]


@without_gpu
def test_a_torch_without_cuda_is_named(tmp_path):
    with pytest.raises(PoolError, match=r"cannot measure NVIDIA H200 0: .*it needs torch built with CUDA"):
        gpu_peaks.measure(device(0))


def test_compiling_needs_the_target_alone():
    assert nvidia.for_compiling(POOL).isa == ("sm_90",)
    with pytest.raises(PoolError, match='add target = "sm_90"'):
        nvidia.for_compiling(replace(POOL, target=""))


def test_facts_of_older_events_stay_readable():
    old = b'{"device":"x","cores":2,"isa":[],"vector_bytes":64,"l2_bytes":0,"l3_bytes":0,"memory_bytes":1,'
    old += b'"copy_gbps":1.0,"peak_gflops":1.0}'
    assert decode(old, HardwareFacts).accelerators == ()
    assert decode(b'{"name":"cpu","platform":"cpu","languages":["cpp"]}', Pool).devices == ()
