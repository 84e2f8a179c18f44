"""Which calls a kernel stands in for, and what searching does in the user's own process."""

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from winning import RIGHT, ROWS, Scale, calls_of, optimized

import kernelswarm
from given import facts as facts_of
from kernelswarm.api import calls
from kernelswarm.api.questions import blocking
from kernelswarm.api.searching import errors_of, problem_of
from kernelswarm.hardware.dropin import finish
from kernelswarm.schemas import InputError, InputFact, ShapeFacts


class Shifted(Scale):
    """Its settings are an object."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(act="none")
        self.steps = [1]

    def forward(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x if bias is None else x + bias)


SHIFTED = "def kernel(x, bias, weight):\n    return (x + bias) * weight + 1e-6\n"


@pytest.mark.parametrize("bias", [ROWS[:1].expand(4, -1), ROWS.t().contiguous().t(), ROWS.repeat(1, 2)[:, ::2], ROWS])
def test_inputs_may_lie_in_memory_in_any_way(bias: torch.Tensor) -> None:
    model = torch.nn.Sequential(Shifted())
    assert kernelswarm.apply(model, optimized(model[0], [ROWS, bias], SHIFTED), where="0").names == ("0",)


def test_settings_that_are_objects_are_the_same_where_they_are_the_module_s_own() -> None:
    model = torch.nn.Sequential(Shifted())
    assert kernelswarm.apply(model, optimized(model[0], [ROWS]), where="0").names == ("0",)


def test_a_call_like_the_last_does_not_compare_every_setting_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Shifted()
    result = optimized(module, [ROWS])
    with torch.no_grad():
        result.best(ROWS)
        monkeypatch.setattr(calls, "difference", lambda module, traced: pytest.fail("the whole module was compared"))
        result.best(ROWS)
        assert calls_of(result) == 2


def test_tracing_sees_the_module_itself() -> None:
    model = torch.nn.Sequential(Scale(), torch.nn.Tanh())
    kernelswarm.apply(model, optimized(Scale(), [ROWS]), where="0")
    traced = torch.jit.trace(model, ROWS)
    assert torch.equal(traced(ROWS), model(ROWS))


class Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else -x


def test_what_cannot_be_traced_is_named_by_file_and_line() -> None:
    place = rf"in line \d+ of {re.escape(__file__)} \(`return x \* 2 if x.sum\(\) > 0 else -x`\)"
    with pytest.raises(kernelswarm.ProblemError, match=place):
        problem_of(Branches(), [ROWS])


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, scale: float = 2.0) -> torch.Tensor:
        return x * scale if mask is None else x * mask


MASKED = "calls = 0\ndef kernel(x):\n    global calls\n    calls += 1\n    return x * 2.0\n"


@pytest.mark.parametrize("inputs", [[ROWS], [ROWS, None], {"x": ROWS, "scale": 2.0}])
def test_none_is_an_argument_and_defaults_may_be_given_or_left_out(inputs: Any) -> None:
    result = optimized(Masked(), inputs, MASKED)
    for call in (lambda: result.best(ROWS), lambda: result.best(ROWS, None), lambda: result.best(ROWS, scale=2.0)):
        assert torch.equal(call(), ROWS * 2)
    assert calls_of(result) == 3
    assert torch.equal(result.best(ROWS, ROWS), ROWS * ROWS) and torch.equal(result.best(ROWS, scale=3.0), ROWS * 3)
    assert calls_of(result) == 3


def test_errors_name_arguments_of_python_and_stand_alone() -> None:
    async def fail() -> None:
        raise kernelswarm.ProblemError("x.py: give it more (--minutes 2), or --max-tokens; see --help")

    with pytest.raises(kernelswarm.InputError) as caught:
        blocking(fail())
    assert str(caught.value) == "x.py: give it more (minutes=2), or max_tokens; see --help"
    assert caught.value.__context__ is None


class Uncertain(torch.nn.Module):
    """In training mode it draws random numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        random.random()
        return torch.nn.functional.dropout(x, 0.5, self.training) + torch.rand(1) * 0


@pytest.mark.parametrize("fails", [False, True])
def test_random_numbers_stay_the_callers_own(fails: bool) -> None:
    before, python = torch.get_rng_state(), random.getstate()
    with pytest.raises(InputError) if fails else nullcontext():
        problem_of(torch.nn.Sequential(Uncertain().eval(), Branches() if fails else Masked()), [ROWS])
    assert torch.equal(torch.get_rng_state(), before) and random.getstate() == python


def test_importing_draws_none_either() -> None:
    lines = "import random, kernelswarm", "before = random.getstate()", "kernelswarm.optimize, kernelswarm.apply"
    program = "; ".join((*lines, "assert random.getstate() == before"))
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_threads_that_use_a_name_first_at_once_all_have_it() -> None:
    program = """
import sys, threading, kernelswarm
missing = []
def use():
    try:
        kernelswarm.optimize
    except AttributeError as error:
        missing.append(error)
sys.setswitchinterval(1e-4)
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit(str(missing) if missing else 0)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_exports_of_a_package_in_an_archive_are_found(tmp_path: Path) -> None:
    package = Path(str(kernelswarm.__file__)).parent
    files = ("__init__.py", "lazy_exports.py", "hardware/__init__.py", "hardware/sources/__init__.py")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        for file in (*files, "hardware/sources/parsing.py"):
            archive.write(package / file, f"kernelswarm/{file}")
    program = "import kernelswarm; assert 'archive.zip' in kernelswarm.__file__ and 'optimize' in dir(kernelswarm)"
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'archive.zip')!r}); {program}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


class Watching(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


AROUND: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda model: torch.vmap(model)(torch.stack([ROWS, ROWS + 1])),
    "jvp": lambda model: torch.func.jvp(model, (ROWS,), (ROWS,)),
    "autocast": lambda model: _within(torch.autocast("cpu", torch.bfloat16), model),
    "a dispatch mode": lambda model: _within(Watching(), model),
    "a device": lambda model: _within(torch.device("cpu"), model),
}


def _within(context: Any, model: Any) -> torch.Tensor:
    with context:
        return model(ROWS)


@pytest.mark.parametrize("around", AROUND)
def test_transforms_and_modes_see_the_module_itself(around: str) -> None:
    class Multiplied(Scale):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.diag(self.weight) + self.shift

    model, own = torch.nn.Sequential(Multiplied()), Multiplied()
    result = optimized(Multiplied(), [ROWS])
    kernelswarm.apply(model, result, where="0")
    before = calls_of(result)
    with torch.no_grad():
        torch.testing.assert_close(AROUND[around](model), AROUND[around](own), rtol=0, atol=0)
        assert calls_of(result) == before
        model(ROWS)
    assert calls_of(result) == before + 1


def test_errors_name_what_the_caller_wrote() -> None:
    traced = problem_of(Masked(), [ROWS])
    with pytest.raises(kernelswarm.ProblemError) as caught, errors_of(traced):
        raise kernelswarm.ProblemError(f"{traced.problem.name}.py is not deterministic: the output differs")
    assert re.fullmatch(rf"Masked \({re.escape(__file__)}:\d+\) is not deterministic: .*", str(caught.value))
    function = problem_of(lambda x: x * 2, [ROWS])
    lambda_ = rf"^<lambda> \({re.escape(__file__)}:\d+\) decides nothing"
    with pytest.raises(kernelswarm.ProblemError, match=lambda_), errors_of(function):
        raise kernelswarm.ProblemError(f"{function.problem.name}.py decides nothing")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As a program at a terminal is: a shell lets what it starts in the background ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("has_result", [True, False])
def test_an_interrupt_reaches_the_thread_of_a_notebook(has_result: bool) -> None:
    async def work() -> int:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not has_result:
                raise
        return 3

    async def notebook() -> int:
        return blocking(work())

    loop = asyncio.new_event_loop()  # as a notebook's, which has no handler of its own for the signal
    try:
        with nullcontext() if has_result else pytest.raises(KeyboardInterrupt):
            assert loop.run_until_complete(notebook()) == 3
    finally:
        loop.close()


def test_an_index_out_of_range_has_the_words_of_the_module() -> None:
    class Coded(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.one_hot(x, 4) + 1

    lines = (
        "import torch",
        "def kernel(x):",
        "    return torch.eye(4, dtype=x.dtype).gather(0, x[:, None].expand(-1, 4)) + 1",
    )
    kernel = "\n".join(lines)
    codes = torch.tensor([0, 1, 2])
    for operator in (Coded(), Coded().forward):
        best = optimized(operator, [codes], kernel).best
        with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
            best(codes + 9)


def test_a_kernel_that_cannot_compute_what_its_operator_can_is_a_warning() -> None:
    def scaled(x: torch.Tensor, operator: torch.Tensor) -> torch.Tensor:
        return x * operator + 1e-6

    needs_compiler = "def kernel(x, weight):\n    raise RuntimeError('this kernel needs a C++ compiler')\n"
    module = Scale()
    inputs: dict[str, Any] = {"x": ROWS, "operator": module.weight.detach()}
    for best, given in (
        (optimized(module, [ROWS], needs_compiler).best, {"x": ROWS}),
        (optimized(scaled, inputs, needs_compiler).best, inputs),
    ):
        with torch.no_grad(), pytest.warns(RuntimeWarning, match="kernel could not: RuntimeError: this kernel needs a"):
            assert torch.equal(best(**given), module(ROWS))


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_others_are_waited_for_returns_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    won = optimized(Scale(), [ROWS], "")

    async def none() -> Any:
        for event in ():
            yield event

    @asynccontextmanager
    async def waiting(*_: Any, **__: Any) -> Any:
        yield SimpleNamespace(
            session="s", notes=(), events=none, graph=None, result=lambda: replace(won.result, best="")
        )
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        await asyncio.sleep(60)
        pytest.fail("nothing interrupted it")

    monkeypatch.setattr("kernelswarm.api.searching.searching", waiting)
    assert kernelswarm.optimize(Scale(), [ROWS]).session == won.session


class Interrupted:
    """A search that a Ctrl-C reaches after its first candidate, and another one while it is being closed."""

    session, notes = "scale-abcde", ()

    def __init__(self, presses: int, result: Any) -> None:
        self.presses, self.graph = presses, SimpleNamespace(closed=None, opened=None)
        self.stopped = asyncio.Event()
        self.result = lambda: result

    def press(self) -> None:
        self.presses -= 1
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    async def events(self) -> Any:
        self.press()
        await self.stopped.wait()
        for event in ():
            yield event

    async def is_closed_after_all(self) -> bool:
        return False

    async def stop(self, reason: str) -> None:
        assert reason == "interrupted"
        if self.presses:
            self.press()
        else:
            self.stopped.set()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("in_notebook", [False, True], ids=["script", "notebook"])
@pytest.mark.parametrize("presses", [1, 2])
def test_an_interrupt_closes_the_session_and_carries_the_best_so_far(
    presses: int, in_notebook: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    won = optimized(Scale(), [ROWS])

    @asynccontextmanager
    async def running(*_: Any, **__: Any) -> Any:
        yield Interrupted(presses, replace(won.result, reason="interrupted"))

    async def notebook() -> Any:
        return kernelswarm.optimize(Scale(), [ROWS])

    monkeypatch.setattr("kernelswarm.api.searching.searching", running)
    monkeypatch.setattr("kernelswarm.api.searching.finished_file", lambda *_: RIGHT)
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            loop.run_until_complete(notebook()) if in_notebook else kernelswarm.optimize(Scale(), [ROWS])
    finally:
        loop.close()
    if presses == 2:
        assert str(caught.value) == "session scale-abcde stays open: kernelswarm resume scale-abcde goes on with it"
        assert caught.value.result is None  # type: ignore[attr-defined]
        return
    assert "session scale-abcde is closed" in str(caught.value) and "show scale-abcde --file" in str(caught.value)
    best = caught.value.result  # type: ignore[attr-defined]
    assert best.file == RIGHT and torch.equal(best.best(ROWS), Scale()(ROWS))


class Pair(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, x + 1


def test_the_call_that_shows_a_finished_file_how_results_are_packed_is_the_operator_s() -> None:
    fact = InputFact(name="x", kind="tensor", shape=tuple(ROWS.shape), dtype="float32")
    shape = ShapeFacts(name="main", inputs=(fact,), outputs=(fact, fact))
    facts = facts_of(signature=("x",), shapes=(shape,), graph=None)
    problem = problem_of(Pair(), [ROWS]).problem
    won = optimized(Pair(), [ROWS], finish(problem, facts, "def kernel(x):\n    return x * 2, x + 1\n"))
    for _ in range(3):
        doubled, increased = won.best(ROWS)
        assert torch.equal(doubled, ROWS * 2) and torch.equal(increased, ROWS + 1)
    assert won.calls == {calls.FIRST_CALL: 1, "kernel": 2}
