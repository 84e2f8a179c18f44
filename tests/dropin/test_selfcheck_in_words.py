"""What ``python best.py`` prints of its checks and times."""

import io
from types import SimpleNamespace

from kernelswarm.hardware.dropin.selfcheck import ROUNDS, _in_words, say, speedups


def check(what, error=0.0, tolerance=1e-4, shape="main"):
    return {"shape": shape, "what": what, "error": error, "tolerance": tolerance, "ok": error <= tolerance}


def words(*checks, backward=False, eager=(2.0,) * ROUNDS, load=0.0, description="norm: a kernel"):
    report = {"checks": checks, "device": "cpu", "torch": "2.13", "kernel_used": True, "correct": True}
    rounds = {"eager": list(eager), "kernel": [1.0] * ROUNDS}
    report |= {"times_ms": {"eager": 2.0, "kernel": 1.0}, "rounds_ms": rounds, "speedups": speedups(rounds)}
    report["background_load"] = load
    file = {"__doc__": description, "REFERENCE": SimpleNamespace(backward=backward), "SEARCHED": {"device": "cpu"}}
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


def test_gradients_that_are_equal_take_one_line():
    text = words(check("gradient 0"), check("gradient 1"), check("gradient 2", 1e-6), check("gradient 3", 1.0))
    lines = [line for line in text.splitlines() if "gradient" in line]
    assert lines == [
        "ok    main: gradient 2: 1e-06 of 0.0001",
        "WRONG main: gradient 3: 1 of 0.0001",
        "ok    2 gradients: equal",
    ]


def test_times_of_a_problem_with_gradients_say_that_they_are_without():
    assert "without gradients" in words(check("output 0"), backward=True)
    assert "without gradients" not in words(check("output 0"))


def test_a_ratio_has_its_spread_which_leaves_out_a_round_on_either_side():
    text = words(check("output 0"), eager=[100.0, 0.1, *[2.0] * 10, *[2.2] * 9])
    assert "eager         2.0000 ms  2.00x (2.00 to 2.20 in 19 of 21 rounds)" in text
    assert "say little" not in text
    assert "A ratio is the median of the rounds' own ratios, not of the times above." in text


def test_ratios_of_a_busy_machine_say_little():
    assert "Other work kept 60% of the cores busy meanwhile: these ratios say little" in words(load=0.6)
    assert "differ by more than a factor of two" in words(eager=[*[2.0] * 11, *[5.0] * 10])
    assert "say little" not in words(load=0.1)


HEADER = """norm: a drop-in kernel.

No win found: n001 stands at 0.85x (0.70 to 1.03) of eager.
By the judge (interleaved benchmark) it is
- not shown to be faster than eager: 0.85x (0.70 to 1.03)

Measured on pool cpu: a machine.

Use: `from best import kernel`; kernel(x).
Run as a program it checks itself.
"""


def test_what_the_search_measured_stands_below_the_times():
    text = words(check("output 0"), description=HEADER)
    measured = text.partition("more carefully:\n")[2]
    assert measured.startswith("No win found: n001 stands at 0.85x (0.70 to 1.03) of eager.\nBy the judge")
    assert "\n\nMeasured on pool cpu: a machine." in measured and "Use:" not in text
    assert "more carefully" not in words(check("output 0"))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_what_takes_its_time_is_said_on_a_terminal_alone(monkeypatch):
    for stream, printed in ((Terminal(), "\r\x1b[Kchecking shape main"), (io.StringIO(), "")):
        monkeypatch.setattr("sys.stderr", stream)
        say("checking shape main")
        assert stream.getvalue() == printed
