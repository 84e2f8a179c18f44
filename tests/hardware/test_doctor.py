"""The doctor's checks."""

from kernelswarm.hardware.doctor import Status, examine
from kernelswarm.schemas import Pool

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))


def by_name(home, pool=POOL):
    return {check.name: check for check in examine(pool, home)}


def test_a_working_machine_fails_nothing_and_every_complaint_has_a_way_out(tmp_path):
    checks = by_name(tmp_path)
    assert [c for c in checks.values() if c.status is Status.fail] == []
    assert all(bool(c.way_out) == (c.status is not Status.ok) and c.detail for c in checks.values())
    expected = {"python", "torch", "compiler", "nats-server", "home", "isolation", "load", "huge pages", "counters"}
    assert expected <= set(checks)


def test_a_missing_compiler_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    check = by_name(tmp_path)["compiler"]
    assert check.status is Status.fail and "apt-get install g++" in check.way_out


def test_a_compiler_whose_libraries_do_not_load_fails(tmp_path, monkeypatch):
    script = tmp_path / "c++"
    script.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "g++ 1.2.3" && exit\nexit 0\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    check = by_name(tmp_path)["compiler"]
    assert check.status is Status.fail and "g++ 1.2.3 cannot build and load" in check.detail


def test_a_home_that_cannot_be_written_fails(tmp_path):
    (tmp_path / "home").write_text("")
    check = by_name(tmp_path / "home")["home"]
    assert check.status is Status.fail and "KERNELSWARM_HOME" in check.way_out
