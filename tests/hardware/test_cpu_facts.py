"""What is read from /proc and /sys: a made-up tree stands in for other machines."""

import os

import pytest

from kernelswarm.hardware.machine import cpu_facts


@pytest.fixture
def machine(tmp_path):
    def put(files: dict[str, str]):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return tmp_path

    return put


def test_an_x86_processor(machine):
    root = machine({"proc/cpuinfo": "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 fma avx sse2"})
    assert cpu_facts.model_name(root) == "Some CPU @ 2 GHz"
    assert cpu_facts.instruction_sets(root) == ("avx", "avx2", "fma", "sse2")
    assert cpu_facts.vector_bytes(("avx", "avx2")) == 32


def test_an_arm_processor_has_neon(machine):
    root = machine({"proc/cpuinfo": "processor : 0\nFeatures : fp asimd sve"})
    assert cpu_facts.instruction_sets(root) == ("asimd", "neon", "sve")
    assert cpu_facts.vector_bytes(("asimd", "neon")) == 16


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 99), ("250000 100000", 2), ("50000 100000", 1)])
def test_a_quota_of_the_control_group_counts(machine, monkeypatch, quota, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(99)))
    root = machine({"proc/self/cgroup": "0::/box/inner", "sys/fs/cgroup/box/cpu.max": quota})
    assert cpu_facts.usable_cores(root) == cores


def test_a_quota_of_the_first_version_counts(machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(99)))
    root = machine(
        {
            "proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/box",
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "400000",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
        }
    )
    (root / "sys/fs/cgroup/cpu,cpuacct").symlink_to("cpu")
    assert cpu_facts.usable_cores(root) == 4


def test_affinity_counts(machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7})
    assert cpu_facts.usable_cores(machine({})) == 3


def test_a_memory_limit_counts_and_no_limit_does_not(machine):
    root = machine({"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "123456"})
    assert cpu_facts.memory_bytes(root) == 123456
    machine({"sys/fs/cgroup/memory.max": "max"})
    assert cpu_facts.memory_bytes(root) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_caches_and_huge_pages(machine):
    cache = "sys/devices/system/cpu/cpu0/cache"
    files = {}
    for index, (level, kind, size) in enumerate(
        [(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K")]
    ):
        files |= {f"{cache}/index{index}/{k}": v for k, v in (("level", str(level)), ("type", kind), ("size", size))}
    root = machine(files | {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never"})
    assert cpu_facts.cache_bytes(2, root) == 2 << 20
    assert cpu_facts.cache_bytes(1, root) == 48 << 10
    assert cpu_facts.cache_bytes(3, root) == 0
    assert cpu_facts.transparent_huge_pages(root) == "madvise"


def test_a_machine_that_says_nothing(machine):
    root = machine({})
    assert cpu_facts.model_name(root) and cpu_facts.transparent_huge_pages(root) == "unknown"
    assert cpu_facts.usable_cores(root) >= 1 and cpu_facts.memory_bytes(root) > 0
