"""What a search came to, ready to use."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..hardware.sources.from_python import Traced
from ..schemas import InputError, Interval
from ..sessions.results import SearchResult, seconds_text, times_line
from .questions import in_python

if TYPE_CHECKING:
    from .applying import Applied
    from .calls import SearchedCall


@dataclass(frozen=True, repr=False)
class Optimized:
    """What a search came to. It prints as five lines."""

    result: SearchResult
    """Everything that was measured."""
    traced: Traced
    """The problem, and the operator that it was traced from."""
    file: str = ""
    """Text of best.py: the operator, its best correct kernel, and what that beats; empty if no candidate was right."""

    @property
    def session(self) -> str:
        """Id of the session, for ``kernelswarm show`` and SQL."""
        return self.result.session

    @property
    def win(self) -> bool:
        """Whether the kernel is faster than what it was searched against, intervals and all."""
        return self.result.win

    @property
    def source(self) -> str:
        """The best candidate, as it was judged; empty if none was right."""
        return self.result.source

    @property
    def speedup(self) -> Interval | None:
        """Of the best candidate by the judge, on an accelerator on the device; ``result.ordinary_speedup`` and
        ``result.call_speedup`` stand beside it."""
        return self.result.speedup

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """What to call instead of the operator: the kernel if it is a win, else the operator itself."""
        kernel: Callable[..., Any] = self.best if self.win else self._operator
        return kernel

    @cached_property
    def best(self) -> Callable[..., Any]:
        """The best correct kernel, win or not, as a callable with the operator's arguments; for a KernelBench file its
        ``ModelNew``. Calls that are not like the one that was searched, or that need gradients, go to the operator.

        Raises:
            InputError: no candidate was right.
        """
        if not self.file:
            raise InputError(f"session {self.session} has no correct kernel: {in_python(self.result.detail)}")
        if self.traced.operator is None:
            return _callable(self._loaded(self.file), "ModelNew", "kernel")
        call, operator = self._call, self.traced.operator
        if isinstance(operator, _module_class()):
            module: Callable[..., Any] = self._shared(call)
            return module

        def kernel(*arguments: Any, **named: Any) -> Any:
            tensors = call.tensors(None, arguments, named)
            if tensors is None:
                return operator(*arguments, **named)
            return call.result(tensors, operator, *arguments, **named)

        return kernel

    @property
    def calls(self) -> dict[str, int]:
        """How many calls the kernel computed in this process, and how many the operator itself did, by why."""
        return dict(self._call.counts) if self.file and self.traced.operator is not None else {}

    @property
    def module(self) -> Any:
        """:attr:`kernel` as an ``nn.Module``: it shares the parameters and buffers of the module that was searched.

        Raises:
            InputError: a problem file was searched: its ``ModelNew`` is :attr:`kernel`, to be made with your weights.
        """
        if self.traced.operator is None:
            raise InputError(
                f"session {self.session} searched a problem file, which holds no weights: make result.kernel(...) with "
                "the constructor's arguments and load your state_dict into it"
            )
        if isinstance(self.kernel, _module_class()):
            return self.kernel
        from .applying import Wrapped

        return Wrapped(self.kernel)

    def put_into(self, model: Any, where: str, *, best: bool) -> "Applied":
        """See :func:`kernelswarm.apply`."""
        from .applying import put_into

        if not isinstance(model, _module_class()):
            raise InputError(f"a {type(model).__name__} is no nn.Module: a kernel is put into the submodules of one")
        if not self.win and not best:
            raise InputError(
                f"session {self.session} has no win to put into a model: {in_python(self.result.detail)}; "
                "with best=True its best correct kernel is put in all the same"
            )
        if self.traced.operator is None:
            raise InputError(
                f"session {self.session} searched a problem file: search the module itself, "
                "kernelswarm.optimize(module, [x]), to put the kernel into a model"
            )
        return put_into(model, self._call, where)

    def __getstate__(self) -> dict[str, Any]:
        """What was found; what follows from it is made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        result = self.result
        named = f" ({result.measure})" if result.measure else ""
        lines = (
            f"{result.problem} on pool {result.pool}: {f'win{named}' if self.win else 'no win found'}",
            in_python(result.detail.removeprefix("no win found: ")),
            times_line(result) or "nothing was timed",
            f"{result.candidates} candidate{'s' * (result.candidates != 1)}, {result.correct} correct, "
            f"{seconds_text(result)}; ended: {result.reason}",
            f"session {result.session}: kernelswarm show {result.session}",
        )
        return "\n".join(" ".join(line.split()) for line in lines)

    @cached_property
    def _call(self) -> "SearchedCall":
        from .calls import SearchedCall

        if not self.file:
            raise InputError(f"session {self.session} has no correct kernel: {in_python(self.result.detail)}")
        return SearchedCall(self.traced, self._loaded(self.file).kernel)

    @property
    def _operator(self) -> Callable[..., Any]:
        if self.traced.operator is not None:
            return self.traced.operator
        return _callable(self._loaded(self.traced.problem.source), "Model", "reference")

    def _shared(self, call: "SearchedCall") -> Any:
        from .applying import shared

        operator: Any = self.traced.operator
        return shared(operator, call)

    def _loaded(self, source: str) -> Any:
        from .calls import loaded

        return loaded(source, self.session)


def _callable(module: Any, *names: str) -> Callable[..., Any]:
    """The first of the names that a loaded file defines."""
    function: Callable[..., Any] = next(getattr(module, name) for name in names if hasattr(module, name))
    return function


def _module_class() -> type:
    import torch

    kind: type = torch.nn.Module
    return kind


__all__ = ["Optimized"]
