"""A candidate module's state, in its process: loaded, restored between calls, handed over, and checked at the end."""

from collections.abc import Sequence
from typing import Any

import torch

from ....schemas import FROM_SEED
from ...dropin.constructor import made_on
from ...processes import objects
from ...processes.arguments import Mapping, Values
from ...processes.messages import HOST
from ..messages.state import ATTRIBUTE, BUFFER, INPUT, NOT_PERSISTENT, PARAMETER, StateChecked, StateEntry, in_words
from ..tensors import tensor_placement, values
from ..tensors.likeness import each_same, same
from .adoption import Adoption, adopt
from .answering import Refused, attempt
from .seeding import seed_everything
from .state import Start, StateMember, cloned, held, parts_of, read, whole_of

_REGISTER = {
    PARAMETER: "make it an nn.Parameter",
    BUFFER: "use register_buffer(name, tensor)",
    NOT_PERSISTENT: "use register_buffer(name, tensor, persistent=False)",
}
_NAMES = {PARAMETER: "a parameter", BUFFER: "a buffer", NOT_PERSISTENT: "a buffer that state_dict leaves out"}
_copy = torch.Tensor.copy_


def build_model(module: Any, setup: Sequence[Any]) -> tuple[torch.nn.Module, Adoption]:
    """``ModelNew`` of a candidate's file, and how it took the weights; ``setup`` is a :class:`.state.Setup`.

    Raises:
        Refused: there is none, or it cannot be made.
    """
    positional, named, weights, beside, seed, on_device = setup
    make = getattr(module, "ModelNew", None)
    if not (isinstance(make, type) and issubclass(make, torch.nn.Module)):
        raise Refused("the file defines no class `ModelNew(nn.Module)`", kind="load")
    positional, named = objects.of_own_classes((positional, named))
    device = tensor_placement.current_device().device
    drawn_by = device if on_device else torch.device(HOST)
    made, place = attempt(lambda: made_on(drawn_by, make, (positional, named), lambda: seed_everything(seed)), "load")
    model: torch.nn.Module = attempt(lambda: made.to(device), "load")
    adoption = attempt(lambda: adopt(model, weights), "load")
    if adoption.how == FROM_SEED and place != drawn_by:
        raise Refused(
            "ModelNew makes weights of its own, and not where the reference's are drawn: its constructor fails under "
            f"`with torch.device({str(drawn_by)!r})`, or keeps tensors that are no parameters or buffers",
            kind="load",
        )
    for name, member in held(model).items():
        if member.kind == NOT_PERSISTENT and isinstance(beside.get(name), torch.Tensor):
            _load(name, member, beside[name])
    return model, adoption


def check_roles(model: torch.nn.Module, roles: dict[str, str], adoption: Adoption) -> None:
    """Parameters must be parameters, and buffers buffers.

    Raises:
        Refused: one is not.
    """
    present = held(model)
    named = {adoption.name(name): role for name, role in roles.items() if adoption.how != FROM_SEED}
    for name, role in named.items():
        kind = present[name].kind if name in present else role
        if kind != role and kind in _NAMES:
            message = f"{name} is {_NAMES[kind]} of ModelNew, and {_NAMES[role]} of Model: {_REGISTER[role]}"
            raise Refused(message, kind="state")


class CandidateState:
    """What one candidate keeps."""

    def __init__(self, model: torch.nn.Module, setup: Values, source: values.MappedFile, adoption: Adoption) -> None:
        """``setup`` lies in ``source``, which nobody can write: it says what everything was at the start."""
        self._model = model
        self._setup, self._source = setup, source
        self._start = Start(model)
        _, _, weights, beside, *_ = setup.items
        assert isinstance(weights, Mapping) and isinstance(beside, Mapping)
        self._weights = {adoption.name(name): spec for name, spec in weights.items.items() if adoption.how != FROM_SEED}
        """Where each weight lies, by the module's own names; nothing of a module that made its own."""
        self._beside = beside.items
        self._names = set(attempt(model.state_dict)) if adoption.how == FROM_SEED else set(self._weights)
        self._changing: dict[str, str] = {}
        """What the reference changes: names of parts (``cache[0]``), and of what kind they are."""
        self._wholes: set[str] = set()
        """The same, as attributes."""
        self._others = {name: cloned(value) for name, (_, value) in read(model).items() if self._is_watched(name)}
        """What the reference has as well, beside its weights, as it was after loading."""

    def begin(self, entries: Sequence[StateEntry], *, continued: bool) -> None:
        """Before a call that changes ``entries``: everything is as it was after loading, unless it goes on."""
        kinds = {entry.name: entry.kind for entry in entries if entry.kind != INPUT}
        wholes = set(map(whole_of, kinds))
        self._start.keep(wholes, {name: self._given(name) for name in wholes if self._has(name)})
        self._changing |= kinds
        self._wholes.update(wholes)
        if not continued:
            self.restore()

    def restore(self) -> None:
        """Put back what calls change."""
        self._start.restore(self._wholes)

    def differences(self) -> StateChecked:
        """The first thing that the reference leaves alone and the candidate does not."""
        now = read(self._model)
        kept = [name for name in self._weights if name in now and name not in self._changing]
        alike = each_same((self._unpacked(self._weights[name]), now[name][1]) for name in kept)
        if not all(alike):
            name = kept[alike.index(False)]
            kind, value = now[name]
            message = f"{in_words(kind)} {name} is not what it was when it was loaded"
            return _difference(message, self._unpacked(self._weights[name]), value)
        for name, start in self._others.items():
            kind, value = now.get(name, ("", None))
            if name in self._changing or same(start, value):
                continue
            # What is made from the weights has the reference's value from the first call on.
            given = dict(parts_of(whole_of(name), self._given(whole_of(name)))).get(name)
            if not same(given, value):
                return _difference(
                    f"{in_words(kind or ATTRIBUTE)} {name} is not what it was before the calls", start, value
                )
        return self._keys()

    def _keys(self) -> StateChecked:
        keys = set(attempt(self._model.state_dict))
        later = {name for name, kind in self._changing.items() if kind in (PARAMETER, BUFFER)}
        if odd := sorted((keys ^ self._names) - later):
            verb = "has" if odd[0] in keys else "lacks"
            return StateChecked(message=f"after the calls its state_dict {verb} {odd[0]}, other than the reference's")
        return StateChecked()

    def _is_watched(self, name: str) -> bool:
        return whole_of(name) in self._beside and name not in self._weights

    def _has(self, name: str) -> bool:
        return name in self._weights or name in self._beside

    def _given(self, name: str) -> Any:
        return self._unpacked(self._weights[name] if name in self._weights else self._beside[name])

    def _unpacked(self, item: Any) -> Any:
        return values.unpack(Values(items=(item,), size=self._setup.size), self._source)[0]


def _load(name: str, buffer: StateMember, value: torch.Tensor) -> None:
    if buffer.value is None or buffer.value.shape != value.shape:
        shape = None if buffer.value is None else list(buffer.value.shape)
        raise Refused(f"buffer {name} of ModelNew is {shape}, the reference's {list(value.shape)}", kind="load")
    _copy(buffer.value, value)


def _difference(message: str, start: Any, now: Any) -> StateChecked:
    before, after = values.leaves([start])[0], values.leaves([now])[0]
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor) and before.shape == after.shape:
        indices = (before != after).flatten().nonzero().flatten()
        index = int(indices[0]) if indices.numel() else 0
        element = f"element {index}: " if before.numel() > 1 else ""
        before, after = before.flatten()[index].item(), after.flatten()[index].item()
        message = f"{message}: {element}{after!r} instead of {before!r}"
    return StateChecked(message=message, expected=_text(before), got=_text(after))


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of {values.dtype_name(value.dtype)} with shape {list(value.shape)}"
    return repr(value)
