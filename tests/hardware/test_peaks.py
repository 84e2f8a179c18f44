"""Measured peaks: plausible, kept, and measured again when the machine changes."""

import shutil
import subprocess
import sys

import pytest

from kernelswarm.hardware.machine import peaks as measuring
from kernelswarm.hardware.machine.lease import Lease
from kernelswarm.hardware.machine.peaks import Peaks, higher, measured_peaks, working_sets
from kernelswarm.hardware.platforms import detect
from kernelswarm.schemas import HardwareFacts, InputError, Pool, PoolError

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))


def facts(device: str = "test", memory: int = 64 << 20) -> HardwareFacts:
    """A small machine: little memory makes small working sets, so that measuring it is quick."""
    return HardwareFacts(
        device=device,
        cores=2,
        isa=(),
        vector_bytes=16,
        l2_bytes=1 << 20,
        l3_bytes=0,
        memory_bytes=memory,
        copy_gbps=0.0,
        peak_gflops=0.0,
    )


@pytest.fixture
def compilations(tmp_path, monkeypatch):
    """The real compiler behind a script that counts; returns the function that says how often it compiled."""
    log, script = tmp_path / "log", tmp_path / "counting-c++"
    compiler = shutil.which("g++") or shutil.which("clang++")
    script.write_text(f'#!/bin/sh\ncase "$*" in *peaks.cpp*) echo x >> {log};; esac\nexec {compiler} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return lambda: len(log.read_text().split()) if log.exists() else 0


def quiet(monkeypatch, load: float) -> None:
    monkeypatch.setattr(measuring.os, "getloadavg", lambda: (load, load, load))


def test_peaks_are_plausible_and_kept(tmp_path, monkeypatch, compilations):
    quiet(monkeypatch, 0.0)
    first = measured_peaks(POOL, facts(), tmp_path)
    sizes, speeds = zip(*first.bandwidths, strict=True)
    assert sizes == working_sets(facts(), 2) == (1 << 20, 2 << 20, 4 << 20, 8 << 20)
    assert list(speeds) == sorted(speeds, reverse=True) and 0.5 < first.copy_gbps < 20000
    assert 0.5 < first.peak_gflops < 1e6
    assert measured_peaks(POOL, facts(), tmp_path) == first and compilations() == 1


def test_refresh_and_another_machine_measure_anew(tmp_path, monkeypatch, compilations):
    quiet(monkeypatch, 0.0)
    measured_peaks(POOL, facts(), tmp_path)
    measured_peaks(POOL, facts(), tmp_path, refresh=True)
    assert compilations() == 2
    measured_peaks(POOL, facts("another"), tmp_path)
    assert compilations() == 3 and len(list((tmp_path / "pools").glob("cpu.*.json"))) == 2


def test_what_was_measured_on_a_busy_machine_is_measured_again_and_only_raised(tmp_path, monkeypatch, compilations):
    quiet(monkeypatch, 9.0)
    runs = [measured_peaks(POOL, facts(), tmp_path) for _ in range(4)]
    assert compilations() == measuring.MOST_RUNS
    assert [p.peak_gflops for p in runs] == sorted(p.peak_gflops for p in runs)
    assert runs[3] == runs[2]


async def test_nothing_is_measured_again_while_somebody_times(tmp_path, monkeypatch, compilations):
    quiet(monkeypatch, 9.0)
    first = measured_peaks(POOL, facts(), tmp_path)
    async with Lease(POOL, tmp_path).exclusive():
        assert measured_peaks(POOL, facts(), tmp_path) == first and compilations() == 1
    measured_peaks(POOL, facts(), tmp_path)
    assert compilations() == 2


def test_the_higher_of_two_runs_counts_everywhere():
    first = Peaks(bandwidths=((1, 9.0), (2, 3.0)), peak_gflops=5.0)
    second = Peaks(bandwidths=((1, 8.0), (2, 4.0)), peak_gflops=6.0)
    assert higher(first, second) == Peaks(bandwidths=((1, 9.0), (2, 4.0)), peak_gflops=6.0)


def test_working_sets_reach_from_the_private_caches_to_memory():
    sets = working_sets(facts(memory=64 << 30), threads=2)
    assert sets[0] == 1 << 20 and sets[-1] == 512 << 20 and list(sets) == sorted(set(sets))


def test_a_compiler_without_openmp_is_one_sentence(tmp_path, monkeypatch):
    script = tmp_path / "c++"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "g++ 1.2.3" && exit\necho "omp.h: No such file" >&2\nexit 1\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    with pytest.raises(PoolError, match=r"omp.h: No such file.*libomp-dev"):
        measured_peaks(POOL, facts(), tmp_path / "home")
    assert not list((tmp_path / "home").rglob("*.json"))


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(InputError, match="KERNELSWARM_HOME"):
        measured_peaks(POOL, facts(), tmp_path / "home")


def test_detection_fills_every_fact_without_torch(tmp_path, monkeypatch):
    peaks = Peaks(bandwidths=((1 << 20, 20.0), (1 << 29, 10.0)), peak_gflops=100.0)
    monkeypatch.setattr(measuring, "measure", lambda *_: peaks)
    monkeypatch.setattr("kernelswarm.hardware.platforms.cpu.measured_peaks", measured_peaks)
    hardware = detect(POOL, tmp_path)
    assert (
        hardware.device
        and hardware.cores >= 1
        and hardware.isa
        and hardware.memory_bytes > 0
        and hardware.compilers
        and hardware.torch
    )
    assert (hardware.copy_gbps, hardware.peak_gflops, hardware.bandwidths) == (10.0, 100.0, peaks.bandwidths)
    code = "import sys, kernelswarm.hardware.platforms, kernelswarm.hardware.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
