"""Runs one implementation of a problem in an ordinary process: what :mod:`.fork_server` executes as ``__main__``.

Nothing of the package is imported here: the process is what a user's would be, but for the walls around it. It reads
commands, one JSON object a line, from a socket, and answers there. It has no clock: whoever asks measures from outside.
Calls are answered once the device is done with them.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import random
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

MOST_MOVED = 64 << 20
"""Bytes of a copy of the inputs whose numbers are moved between batches."""
SAMPLE = 1 << 16
"""Elements of an output that are compared, at most."""
MODES = {"compile": None, "max_autotune": "max-autotune"}
HOST = "cpu"
LARGEST_IN_HEAP = (32 << 20) - (1 << 16)
_synchronize = torch._C._accelerator_synchronizeDevice
"""What ``torch.accelerator.synchronize`` calls: bound before the user's code could replace it."""
_SALT = 0x9E3779B97F4A7C15

Call = Callable[..., Any]
_PLAYED = contextlib.ExitStack()
"""Open as long as the process: a finished file imports its kernel at the first call."""


def main(descriptor: int) -> None:
    """Answer on the socket ``descriptor`` until the other end is gone."""
    torch.set_grad_enabled(False)
    stream = socket.socket(fileno=descriptor).makefile("rwb")
    process: _Process | None = None
    for line in stream:
        command = json.loads(line)
        try:
            if "import" in command:
                for name in command["import"]:
                    importlib.import_module(name)
                _answer(stream, {})
            elif process is None:
                process = _Process(command, stream)
                _answer(stream, {})
            else:
                _answer(stream, *process.handle(command))
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is an answer
            _answer(stream, {"failed": f"{type(error).__name__}: {error}"[:2000]})


class _Process:
    """One implementation and its inputs."""

    def __init__(self, command: dict[str, Any], stream: Any) -> None:
        self._problem = problem = _Problem(command)
        self._stream = stream
        self._is_asynchronous = problem.device.type != HOST
        # The largest block that glibc takes from its heap: once such a one was freed, the heap keeps what is freed. Any
        # program that loaded weights has freed one, and so has a process that compiled; without it, the others would
        # fault their outputs in anew on every call.
        torch.empty(LARGEST_IN_HEAP, dtype=torch.uint8)
        self.copies = [problem.draw(seed) for seed in command["seeds"]]
        self._numbers = list(range(len(self.copies)))
        """Of which draw the numbers are that lie in each copy."""
        if command.get("built"):
            _play_back(command["player"], command["built"])
        if command.get("kernels"):
            _unpack(command["unpacker"], command["kernels"], command["driver"])
        self._call = problem.implementation(command["implementation"], command["file"])
        if command["implementation"] in MODES:
            # Every copy, since sizes may depend on the data, and twice, since the first call may only record.
            for inputs in [*self.copies, *self.copies]:
                self._call(*inputs)
        self._wait()
        self._turn = 0
        self._output: Any = None
        self._unseen: list[Any] = []
        """What calls on inputs that came once returned."""

    def handle(self, command: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Do what is asked: calls, a call whose outputs are returned, or outputs of the last one that was timed."""
        if command["do"] == "calls":
            call, first = _nothing if command["nothing"] else self._call, command["unseen"]
            self._unseen = []
            unseen = self._unseen_inputs(first, command["calls"]) if first else []
            self._move()
            self._run(command["warm"], call)
            _answer(self._stream, {"token": command["begin"]})
            if first:
                self._unseen = [call(*inputs) for inputs in unseen]
            else:
                self._run(command["calls"], call)
            return {"token": command["token"]}, b""
        if command["do"] == "unseen":
            return _sampled(self._unseen[command["call"]], command["seed"], command["call"])
        if command["do"] == "check":
            inputs = self.copies[self._numbers.index(command["copy"])]
            return _sampled(self._call(*inputs), command["seed"], command["copy"])
        return _sampled(self._output, command["seed"], self._numbers[(self._turn - 1) % len(self.copies)])

    def _move(self) -> None:
        """Give each copy the numbers of the next one, as a user's program fills its buffers anew: who keeps answers by
        where inputs lie has wrong ones from then on.
        """
        leaves = [_leaves(inputs) for inputs in self.copies]
        sizes = [[_size_of(leaf) for leaf in copy] for copy in leaves]
        if any(size != sizes[0] for size in sizes) or sum(size for size, *_ in sizes[0]) > MOST_MOVED:
            return
        for column in zip(*leaves, strict=True):
            if isinstance(column[0], torch.Tensor):
                first = column[0].clone()
                for target, source in zip(column, (*column[1:], first), strict=True):
                    target.copy_(source)
        self._numbers = self._numbers[1:] + self._numbers[:1]

    def _unseen_inputs(self, first: int, calls: int) -> list[list[Any]]:
        """Inputs that come once, in memory where others lay for a call each: what is kept by address may be of use."""
        sets = [self._problem.draw(first + index) for index in range(calls)]
        for index, inputs in enumerate(sets):
            self._call(*inputs)
            drawn = self._problem.draw(first + calls + index)
            leaves, others = _leaves(inputs), _leaves(drawn)
            if list(map(_size_of, leaves)) != list(map(_size_of, others)):
                sets[index] = drawn
                continue
            for target, source in zip(leaves, others, strict=True):
                if isinstance(target, torch.Tensor):
                    target.copy_(source)
        return sets

    def _run(self, calls: int, call: Call) -> None:
        """Rotates through the copies of the inputs, so that no call sees what the one before it saw."""
        turn, count = self._turn, len(self.copies)
        output = None
        if call is not _nothing:
            # A loop of a user's holds the last result alone: memory of the one before is there for the next.
            self._output = None
        for inputs in [self.copies[(turn + index) % count] for index in range(calls)]:
            output = call(*inputs)
        if call is not _nothing:
            self._turn += calls
            self._output = output
        self._wait()

    def _wait(self) -> None:
        """Until the device is done with everything, after calls of nothing as well: waiting costs something, too."""
        if self._is_asynchronous:
            _synchronize(0)


class _Problem:
    """The problem's file: inputs, weights, reference. As the harness has it (``harness/reference_problem.py``)."""

    def __init__(self, command: dict[str, Any]) -> None:
        self.device = torch.device(command["device"])
        self._module = _imported(command["name"], command["problem"])
        self._shape = command["shape"]
        self._backward = getattr(self._module, "backward", False) is True
        self._weight_seed = command["seed"]
        self._is_module = command["is_module"]
        self._model: Any = getattr(self._module, "reference", None)
        self._passing = _executed("_constructor", command["constructor"])
        if self._is_module:
            _seed(command["seed"])
            returned: Any = getattr(self._module, "get_init_inputs", list)()
            make = self._module.Model
            self._positional, self._named = self._passing.positional_and_named(make, returned)
            self._model, self._place = self._made(make, self.device)
            first = self._on_device if self._place == self.device else list
            self._passing.call_once(self._model, lambda: first(self._drawn(command["seed"])))
            self._model = self._model.to(self.device)
            parameters = dict(self._model.named_parameters())
            for name, exponent in command["weight_exponents"].items():
                parameters[name].detach().mul_(2.0**exponent)

    def _made(self, make: Call, place: torch.device) -> tuple[Any, torch.device]:
        """A module with weights from the seed, which ``place`` draws if it can, and who drew them."""
        made: tuple[Any, torch.device] = self._passing.made_on(
            place, make, (self._positional, self._named), lambda: _seed(self._weight_seed)
        )
        return made

    def draw(self, seed: int) -> list[Any]:
        """Inputs of the timed shape, and cotangents where the problem asks for the backward pass."""
        inputs = self._drawn_on_device(seed) if self._is_module and self.device.type != HOST else None
        if inputs is None:
            inputs = self._on_device(self._drawn(seed))
        return [*inputs, self._cotangents(inputs, seed)] if self._backward else inputs

    def _drawn(self, seed: int) -> list[Any]:
        _seed(seed)
        if self._is_module:
            drawn, forward = self._module.get_inputs(), self._model.forward
        else:
            generator = torch.Generator().manual_seed(seed)
            drawn, forward = self._module.inputs(generator, **self._module.shapes[self._shape]), self._model
        inputs: list[Any] = self._passing.by_position(forward, drawn)
        return inputs

    def _drawn_on_device(self, seed: int) -> list[Any] | None:
        """By the device's generator, which is faster; None where the file minds."""
        try:
            with self.device:
                drawn = self._drawn(seed)
            inputs: list[Any] = self._on_device(drawn)
        except (RuntimeError, TypeError):
            return None
        return inputs

    def _on_device(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(self.device)
        if isinstance(value, list | tuple):
            return type(value)(self._on_device(item) for item in value)
        return {key: self._on_device(item) for key, item in value.items()} if isinstance(value, dict) else value

    def _cotangents(self, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        generator = torch.Generator(self.device).manual_seed((seed ^ _SALT) % 2**63)
        outputs = self._model(*(value.clone() if isinstance(value, torch.Tensor) else value for value in inputs))
        shapes = [(output.shape, output.dtype) for output in _leaves(outputs) if _is_floating(output)]
        # Not `promote_types`: it refuses types of eight bits.
        types = [torch.float64 if kind is torch.float64 else torch.float32 for _, kind in shapes]
        return [
            torch.randn(shape, generator=generator, dtype=drawn, device=self.device).to(kind)
            for (shape, kind), drawn in zip(shapes, types, strict=True)
        ]

    def implementation(self, name: str, text: str) -> Call:
        """``eager``, ``compile``, ``max_autotune``, or ``candidate``, which is the file ``text``."""
        if name == "candidate":
            return self._candidate(text)
        if name in MODES:
            return self._passes(torch.compile(self._model, mode=MODES[name], dynamic=False))
        return self._passes(self._model)

    def _candidate(self, text: str) -> Call:
        """What the finished file defines, with the reference's weights."""
        module = _imported("best", text)
        if not self._is_module:
            return self._passes(module.kernel, getattr(module, "backward", None))
        model, weights = self._made(module.ModelNew, self._place)[0].to(self.device), self._model.state_dict()
        if model.state_dict().keys() == weights.keys():
            # Else it is a file that makes its own, from the same seed.
            model.load_state_dict(weights)
        return self._passes(model)

    def _passes(self, forward: Call, backward: Any = None) -> Call:
        return _differentiated(forward, backward) if self._backward else forward


def _differentiated(forward: Call, backward: Any) -> Call:
    """Both passes as one call; ``backward`` is the file's own where its outputs carry no graph."""

    def call(*arguments: Any) -> list[Any]:
        *inputs, cotangents = arguments
        if callable(backward):
            return [*_leaves(forward(*inputs)), *_leaves(backward(*inputs, *cotangents))]
        with torch.enable_grad():
            sources = [value.detach().requires_grad_() for value in inputs if _is_floating(value)]
            left = iter(sources)
            outputs = _leaves(forward(*(next(left) if _is_floating(value) else value for value in inputs)))
            floating = [output for output in outputs if _is_floating(output)]
            pairs = [
                (output, weight) for output, weight in zip(floating, cotangents, strict=True) if output.requires_grad
            ]
            ends, weights = zip(*pairs, strict=True)
            return [*outputs, *torch.autograd.grad(ends, sources, weights, allow_unused=True)]

    return call


def _sampled(outputs: Any, seed: int, copy: int) -> tuple[dict[str, Any], bytes]:
    """Types, shapes, and some elements of every output in float64: drawn by ``seed``, all of a small one."""
    generator = torch.Generator().manual_seed(seed)
    tensors = [leaf.detach() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for leaf in _leaves(outputs)]
    forms, data = [], []
    for tensor in tensors:
        forms.append([str(tensor.dtype), list(tensor.shape)])
        tensor = tensor.resolve_conj().resolve_neg()
        flat = torch.view_as_real(tensor).reshape(-1) if tensor.is_complex() else tensor.reshape(-1)
        if flat.numel() > SAMPLE:
            flat = flat[torch.randint(flat.numel(), (SAMPLE,), generator=generator)]
        numbers = flat.double().cpu().contiguous()
        data.append(ctypes.string_at(numbers.data_ptr(), 8 * numbers.numel()) if numbers.numel() else b"")
    return {"copy": copy, "outputs": forms, "sizes": [len(chunk) for chunk in data]}, b"".join(data)


def _size_of(leaf: Any) -> tuple[Any, ...]:
    """Its bytes, and what it must have in common with another one that gets its numbers."""
    if not isinstance(leaf, torch.Tensor):
        return 0, leaf
    # Elements that share memory, or that are not laid out by strides, are left where they are.
    if leaf.layout != torch.strided or 0 in leaf.stride():
        return 0, id(leaf)
    return leaf.numel() * leaf.element_size(), leaf.shape, leaf.dtype


def _leaves(value: Any) -> list[Any]:
    return list(_flat(value))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    elif value is not None:
        yield value


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _nothing(*inputs: Any) -> None:
    """What an empty batch calls."""


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def _play_back(player: str, built: list[str]) -> None:
    """From here on, programs that the file runs answer as they did when it was built; ``player`` is a module's text."""
    module = _executed("player", player)
    _PLAYED.enter_context(module.played_back(Path.cwd(), [Path(path) for path in built]))


def _unpack(unpacker: str, kernels: list[str], driver: str) -> None:
    """Put compiled kernels, and Triton's ``driver``, where it looks for them; ``unpacker`` is a module's text."""
    module, cache = _executed("unpacker", unpacker), Path(os.environ["TRITON_CACHE_DIR"])
    # They save time: what is not there is compiled.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, module.tarfile.TarError):
        for archive in kernels:
            module.unpack(Path(archive), cache)
        module.copy_driver(Path(driver), cache)


def _executed(name: str, text: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def _imported(name: str, text: str) -> ModuleType:
    path = Path.cwd() / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _answer(stream: Any, answer: dict[str, Any], data: bytes = b"") -> None:
    stream.write(json.dumps(answer).encode() + b"\n" + data)
    stream.flush()
