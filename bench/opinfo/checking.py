"""One sample: captured, drafted in every language, and each draft held against the reference."""

import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ...hardware.languages import _triton_source
from ...hardware.languages._triton_ahead import compile_request
from ...hardware.languages._triton_source import Request
from ...hardware.processes.messages import HOST
from ...schemas import Graph, ProblemError
from .drafts import Draft, captured, draft, imported, loaded
from .reference import Call, Excluded, Reference, call, copied, state_of
from .row import Outcome
from .sample import Sample
from .sizes import at_other_sizes

TARGET = "sm_90"
"""What Triton drafts are compiled for where there is no GPU."""
MOST_TEXT = 300
"""Characters of a sentence."""


@dataclass(frozen=True)
class Verdict:
    """What became of a draft at some sizes."""

    outcome: Outcome
    cause: str = ""


@dataclass(frozen=True)
class Checked:
    """What became of a sample in one language."""

    language: str
    captured: Verdict
    other: Verdict
    kernels: int = 0
    seconds: float = 0.0


def check(sample: Sample, name: str, languages: Sequence[str]) -> Iterator[Checked]:
    """Hold a draft of ``sample`` in each language against the reference, at its own sizes and at others."""
    began = time.monotonic()
    try:
        reference = Reference(sample, name)
    except Excluded as excluded:
        yield from _alike(languages, Verdict(Outcome.excluded, str(excluded)))
        return
    except Exception as error:  # noqa: BLE001 - an operator that does not take its own sample says nothing of ours
        yield from _alike(languages, Verdict(Outcome.excluded, f"the operator raises on its sample: {_short(error)}"))
        return
    references = [reference, *_at_other_sizes(reference, name)]
    graph: Graph | Verdict
    try:
        graph = captured(sample)
    except ProblemError as error:
        graph = Verdict(Outcome.not_drafted, str(error)[:MOST_TEXT])
    except Exception as error:  # noqa: BLE001 - a row of its own
        graph = Verdict(Outcome.defect, f"capture: {_short(error)}")
    for language in languages:
        if isinstance(graph, Verdict):
            checked = Checked(language, graph, graph if len(references) > 1 else Verdict(Outcome.none))
        else:
            checked = _checked(graph, references, language)
        yield replace(checked, seconds=time.monotonic() - began)
        began = time.monotonic()


def _alike(languages: Sequence[str], verdict: Verdict) -> Iterator[Checked]:
    for language in languages:
        yield Checked(language, verdict, Verdict(Outcome.none))


def _at_other_sizes(reference: Reference, name: str) -> list[Reference]:
    usable: list[Reference] = []

    def is_usable(sample: Sample) -> bool:
        try:
            usable.append(Reference(sample, name))
        except Exception:  # noqa: BLE001 - whatever the operator does not take, or knows no answer for
            return False
        return True

    at_other_sizes(reference.sample, is_usable)
    return usable


def _checked(graph: Graph, references: Sequence[Reference], language: str) -> Checked:
    """The draft for all sizes; where there is none, that for the captured ones alone."""
    proposal = _drafted(graph, references, language)
    if isinstance(proposal, Verdict) and len(references) > 1:
        alone = _checked(graph, references[:1], language)
        return replace(alone, other=proposal)
    if isinstance(proposal, Verdict):
        return Checked(language, proposal, Verdict(Outcome.none))
    verdicts = [*_JUDGES[language](proposal, references), Verdict(Outcome.none)]
    return Checked(language, verdicts[0], verdicts[1], proposal.kernels)


def _drafted(graph: Graph, references: Sequence[Reference], language: str) -> Draft | Verdict:
    try:
        proposal = draft(graph, [reference.sample for reference in references], language)
    except Exception as error:  # noqa: BLE001 - a row of its own
        return Verdict(Outcome.defect, f"generator: {_short(error)}")
    return proposal if isinstance(proposal, Draft) else Verdict(Outcome.not_drafted, proposal[:MOST_TEXT])


def _cpp(proposal: Draft, references: Sequence[Reference]) -> list[Verdict]:
    try:
        module = imported(proposal.source, "candidate")
    except Exception as error:  # noqa: BLE001 - the compiler's output among others
        return [Verdict(Outcome.not_compiled, _short(error))] * len(references)
    return [_compared(proposal, module, reference) for reference in references]


def _triton(proposal: Draft, references: Sequence[Reference]) -> list[Verdict]:
    if problem := _compilation(proposal.source):
        return [Verdict(Outcome.not_compiled, problem)] * len(references)
    try:
        module = imported(proposal.source, "candidate")
    except Exception as error:  # noqa: BLE001 - a row of its own
        return [Verdict(Outcome.defect, f"generator: {_short(error)}")] * len(references)
    if torch.cuda.is_available():
        return [_compared(proposal, module, reference, "cuda") for reference in references]
    return [_compared(proposal, module, reference, only_plain=True) for reference in references]


_JUDGES = {"cpp": _cpp, "triton": _triton}
LANGUAGES = tuple(_JUDGES)


def _compilation(source: str) -> str:
    """Why the draft's launches do not compile; empty if they do."""
    launches = _triton_source.launches_of(source)
    if not launches:
        return ""
    request = Request(target=TARGET, launches=launches, kernels=_triton_source.kernels_only(source))
    with tempfile.TemporaryDirectory() as folder:
        result = compile_request(request, Path(folder))
    errors = [diagnostic.message for diagnostic in result.diagnostics if diagnostic.severity == "error"]
    return errors[0][:MOST_TEXT] if errors else ""


def _compared(
    proposal: Draft, module: Any, reference: Reference, device: str = HOST, *, only_plain: bool = False
) -> Verdict:
    """The draft's kernels, and its plain ATen calls, on what the reference was called with."""
    sample = reference.sample
    for is_plain in (True,) if only_plain else (False, True):
        try:
            answer = _called(proposal, module, sample, device, is_plain)
        except Exception as error:  # noqa: BLE001 - a row of its own
            what = "its plain calls: " if is_plain else ""
            return Verdict(Outcome.raised, f"{what}{_short(error)}")
        if difference := reference.differences(answer):
            return Verdict(Outcome.wrong, f"{'its plain calls: ' if is_plain else ''}{difference}"[:MOST_TEXT])
    good = Outcome.compiled if only_plain else Outcome.correct
    return Verdict(good if proposal.kernels else Outcome.left)


def _called(proposal: Draft, module: Any, sample: Sample, device: str, is_plain: bool) -> Call:
    torch.manual_seed(0)
    kernel = loaded(module, sample)
    state = state_of(kernel)
    inputs = copied(sample.inputs)
    if device != HOST:
        kernel = kernel.to(device) if isinstance(kernel, torch.nn.Module) else kernel
        inputs = tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, inputs)
    target = _plain(proposal, module, kernel) if is_plain else kernel
    answer = call(target, inputs, state)
    if device == HOST:
        return answer
    back = tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, (answer.results, answer.after))
    return Call(*back)


def _plain(proposal: Draft, module: Any, kernel: Any) -> Any:
    """The draft with no kernels to take."""
    if not isinstance(kernel, torch.nn.Module):
        return module._aten
    values = dict(kernel.named_parameters(remove_duplicate=False)) | dict(kernel.named_buffers(remove_duplicate=False))
    return lambda *inputs: module._aten(*inputs, *(values[path] for path in proposal.params))


def _short(error: BaseException) -> str:
    """The error's class, what it says, and where it was raised, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = next((line for line in lines if "error:" in line), lines[0] if lines else "")
    return f"{type(error).__name__}: {message}"[: MOST_TEXT - len(place)] + place
