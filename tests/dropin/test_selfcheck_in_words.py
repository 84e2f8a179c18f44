"""What ``python best.py`` prints of its checks and times."""

import io
from types import SimpleNamespace

from kernelswarm.hardware.dropin.selfcheck import _in_words, say


def check(what, error=0.0, tolerance=1e-4, shape="main"):
    return {"shape": shape, "what": what, "error": error, "tolerance": tolerance, "ok": error <= tolerance}


def words(*checks, backward=False):
    report = {"checks": checks, "device": "cpu", "torch": "2.13", "kernel_used": True, "correct": True}
    report["times_ms"] = {"eager": 2.0, "kernel": 1.0}
    file = {"__doc__": "norm: a kernel", "REFERENCE": SimpleNamespace(backward=backward), "SEARCHED": {"device": "cpu"}}
    return _in_words(report, file)


def test_settings_that_are_equal_take_one_line_and_everything_else_its_own():
    text = words(
        check("output 0", 1e-6), check("output 1", tolerance=0.0), check("state norm.eps", tolerance=0.0),
        check("state norm.size", 1.0, tolerance=0.0), check("state norm.mean", 2e-6),
    )  # fmt: skip
    lines = [line for line in text.splitlines() if line.startswith(("ok", "WRONG"))]
    assert lines == [
        "ok    main: output 0: 1e-06 of 0.0001",
        "ok    main: output 1: 0 of 0",
        "WRONG main: state norm.size: 1 of 0",
        "ok    main: state norm.mean: 2e-06 of 0.0001",
        "ok    1 numbers and settings: equal",
    ]


def test_times_of_a_problem_with_gradients_say_that_they_are_without():
    assert "without gradients" in words(check("output 0"), backward=True)
    assert "without gradients" not in words(check("output 0"))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_what_takes_its_time_is_said_on_a_terminal_alone(monkeypatch):
    for stream, printed in ((Terminal(), "\r\x1b[Kchecking shape main"), (io.StringIO(), "")):
        monkeypatch.setattr("sys.stderr", stream)
        say("checking shape main")
        assert stream.getvalue() == printed
