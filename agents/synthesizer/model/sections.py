"""The parts of a prompt as text: problem, machine, attempts, skills."""

from collections.abc import Sequence

from ....schemas import (
    Evidence,
    HardwareFacts,
    InputFact,
    KernelResources,
    NodeDiagnosed,
    Pool,
    Problem,
    ProblemFacts,
    Skill,
)
from ....schemas.pool import BASELINE_NAMES
from ..backend import Attempt
from ..contract import contract, tries_other_sizes, what_to_write
from .extract import without_loader

_LOG_CHARACTERS = 4_000
"""Most of a compiler's or a candidate's output that a prompt carries: its first lines tell, and its last."""
_SOURCE_CHARACTERS = 60_000
_FRAME_CHARACTERS = 300
"""What stands around the source of a parent: fences, its outcome, how much was left out."""
_MOST_ATTEMPTS = 8


def problem(given: Problem, facts: ProblemFacts, *, tells_contract: bool = False) -> str:
    """The reference, its shapes, and what must be matched; of older sessions not all of it."""
    lines = [f"`{given.name}`, format {given.format.value}:", fenced(given.source, "python"), "Shapes checked:"]
    lines += [f"- {shape.name}: {_tensors(shape.inputs)} -> {_tensors(shape.outputs)}" for shape in facts.shapes]
    if tells_contract:
        asked = (what_to_write(facts), *contract(given, facts))
        lines += ["What is asked of your file:", *(f"- {sentence}" for sentence in asked)]
    else:
        lines.append(f"Precision to match: {facts.dtype}. Only the first shape is timed.")
        if tries_other_sizes(facts):
            lines.append("Other sizes are tried, too: be right there, or raise a ValueError.")
    if facts.parameters:
        parameters = _tensors(list(facts.parameters.values()))
        # Their names are in the file, too.
        lines.append("Parameters and buffers: " + (shortened(parameters, 6_000) if tells_contract else parameters))
    if facts.operators:
        lines.append("As ATen operators: " + ", ".join(facts.operators))
    return "\n".join(lines)


def machine(
    pool: Pool,
    hardware: HardwareFacts,
    facts: ProblemFacts,
    *,
    tells_bandwidths: bool = False,
    tells_contract: bool = False,
) -> str:
    """What the candidate runs on, its measured peaks, and the least time the work can take there.

    Prompts of older sessions for a processor have no bandwidth by working set: ``tells_bandwidths`` is false there.
    Nor have they the work at more than one shape.
    """
    is_processor = pool.platform == "cpu"
    lines = _processor(pool, hardware, tells_bandwidths) if is_processor else _accelerator(pool, hardware)
    timed = facts.timed if tells_contract else facts.shapes[:1]
    for shape in timed:
        there = facts.at(shape)
        work, (moved, computed) = there.work, floors_ms(hardware, there)
        place = f"timed shape {shape.name}" if len(timed) > 1 else "timed shape"
        lines.append(
            f"Work at the {place}: {work.read_bytes} bytes read, {work.write_bytes} written, {work.flops} "
            f"operations: at least {moved:.4g} ms for memory and {computed:.4g} ms for arithmetic."
        )
    return "\n".join(lines)


def _processor(pool: Pool, hardware: HardwareFacts, tells_bandwidths: bool) -> list[str]:
    sets = _working_sets(hardware) if tells_bandwidths else ""
    lines = [
        f"Pool {pool.name} ({pool.platform}): {hardware.device}, {pool.threads or hardware.cores} threads.",
        f"Instruction sets: {', '.join(hardware.isa) or 'unknown'}; widest vector {hardware.vector_bytes} bytes.",
        f"L2 {_bytes(hardware.l2_bytes)} a core, last-level cache {_bytes(hardware.l3_bytes)}.",
        f"Measured with all cores: copy {hardware.copy_gbps:.1f} GB/s, {hardware.peak_gflops:.0f} GFLOP/s in fp32.",
        f"Measured bandwidth by working set of all cores, GB/s read plus written: {sets}." if sets else "",
        f"Transparent huge pages: {hardware.huge_pages}. Compilers: {', '.join(hardware.compilers) or 'unknown'}. "
        f"PyTorch {hardware.torch or 'unknown'}.",
    ]
    return [line for line in lines if line]


def _accelerator(pool: Pool, hardware: HardwareFacts) -> list[str]:
    """Nothing of the host: what runs there is not what is asked for."""
    device = next(iter(hardware.accelerators), None)
    versions = {"PyTorch": hardware.torch, **{name: hardware.versions[name] for name in sorted(hardware.versions)}}
    products = [f"{name} {gflops / 1000:.0f}" for name, gflops in sorted(hardware.matmul_gflops.items())]
    sets = _working_sets(hardware)
    lines = [
        f"Pool {pool.name} ({pool.platform}): {hardware.device}, {device.target if device else pool.target}.",
        f"{device.multiprocessors} multiprocessors at up to {device.max_clock_mhz} MHz, memory "
        f"{device.memory_bytes >> 30} GiB, L2 {_bytes(device.l2_bytes)}, shared memory of a block up to "
        f"{_bytes(device.shared_bytes)}."
        if device
        else "",
        f"Measured: copy {hardware.copy_gbps:.0f} GB/s read plus written, {hardware.peak_gflops:.0f} GFLOP/s in fp32.",
        f"Measured large matrix products, TFLOP/s: {', '.join(products)}." if products else "",
        f"Measured copy bandwidth by working set, GB/s: {sets}." if sets else "",
        f"Languages: {', '.join(pool.languages)}. "
        + "Versions: "
        + ", ".join(f"{name} {text}" for name, text in versions.items() if text)
        + ".",
    ]
    return [line for line in lines if line]


def _working_sets(hardware: HardwareFacts) -> str:
    return ", ".join(f"{_bytes(size)}: {gbps:.0f}" for size, gbps in hardware.bandwidths)


def floors_ms(hardware: HardwareFacts, facts: ProblemFacts) -> tuple[float, float]:
    """Least time for moving the bytes and for the arithmetic, milliseconds; 0 where the machine was not measured."""
    moved = facts.work.read_bytes + facts.work.write_bytes
    memory = moved / (hardware.copy_gbps * 1e6) if hardware.copy_gbps > 0 else 0.0
    compute = facts.work.flops / (hardware.peak_gflops * 1e6) if hardware.peak_gflops > 0 else 0.0
    return memory, compute


def parent(attempt: Attempt, characters: int = 2 * _SOURCE_CHARACTERS) -> str:
    """The source to start from and all that is known of it, in about so many characters: of the source and of logs the
    beginning and the end are kept."""
    log_characters = min(_LOG_CHARACTERS, max(0, characters // 6))
    known = []
    if attempt.diagnosis is not None:
        known.append(diagnosis(attempt.diagnosis))
    if attempt.diagnostics:
        known.append("The compiler says:\n" + fenced(shortened(attempt.diagnostics, log_characters)))
    if attempt.evidence:
        known.append("Evidence:\n" + fenced(shortened(attempt.evidence, log_characters)))
    left = max(0, characters - sum(map(len, known)) - _FRAME_CHARACTERS)
    source = shortened(without_loader(attempt.source), min(_SOURCE_CHARACTERS, left))
    return "\n\n".join([outcome(attempt), fenced(source, "python"), *known])


def history(attempts: Sequence[Attempt]) -> str:
    """Attempts in a line or two each: what was meant, what came out. Of many, the ends and the best say most."""
    return "\n".join(f"- {outcome(a)}{_meant(a)}{_learned(a)}" for a in _telling(attempts))


def attempt(given: Attempt) -> str:
    """An attempt with its idea, its diagnosis and its source, for somebody who condenses many."""
    parts = [f"## {outcome(given)}{_meant(given)}"]
    if given.diagnosis is not None:
        parts.append(diagnosis(given.diagnosis))
    if given.source:
        parts.append(fenced(shortened(without_loader(given.source), 6_000), "python"))
    return "\n".join(parts)


def outcome(attempt: Attempt) -> str:
    """``n7: correct, 1.42x``."""
    if attempt.verdict is None:
        return f"{attempt.node}: still being evaluated"
    best = "the best baseline"
    if attempt.diagnosis is not None and attempt.diagnosis.pending:
        best = BASELINE_NAMES.get(attempt.diagnosis.against, best)  # others have joined since, or will
    speed = f", {attempt.fitness:.3g}x {best}'s speed" if attempt.fitness > 0 else ""
    if attempt.too_noisy is not None:
        speed = f", speed against {best} {attempt.too_noisy}"
    return f"{attempt.node}: {attempt.verdict.value}{speed}"


def diagnosis(given: NodeDiagnosed) -> str:
    """The analyst's word, with its evidence and advice."""
    lines = [f"Diagnosis: {given.bottleneck.value}. {given.summary}"]
    if given.roofline_fraction is not None:
        lines.append(f"- share of the machine's limit: {given.roofline_fraction:.2f}")
    lines += [f"- {finding.name} = {finding.value}: {finding.meaning}" for finding in given.evidence]
    lines += [f"- advice: {advice.action.value}: {advice.reason}" for advice in given.advice]
    return "\n".join(lines)


def evidence(given: Evidence) -> str:
    """What the verifier or the profiler saw."""
    parts = [given.message]
    if given.expected or given.got:
        parts.append(f"at {list(given.element)} expected {given.expected}, got {given.got}")
    if given.log:
        parts.append(given.log)
    return "\n".join(parts)


def resources(kernels: Sequence[KernelResources]) -> list[str]:
    """What the compiled kernels of an accelerator take, a line each."""
    return [
        f"- {kernel.name}: {kernel.registers} registers, {kernel.spill_bytes} bytes spilled a thread, "
        f"{kernel.shared_bytes} bytes of shared memory a block"
        for kernel in kernels
    ]


def skills(given: Sequence[Skill]) -> str:
    """The skills' documents, without their heads."""
    return "\n\n".join(_body(skill.text) for skill in given)


def fenced(text: str, tag: str = "") -> str:
    """``text`` in a fence that nothing in it can close."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}{tag}\n{text.rstrip()}\n{ticks}"


def shortened(text: str, characters: int) -> str:
    """Beginning and end of ``text`` if it is longer than ``characters``."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[len(text) - half :]}"


def _telling(attempts: Sequence[Attempt]) -> list[Attempt]:
    if len(attempts) <= _MOST_ATTEMPTS:
        return list(attempts)
    best = sorted(attempts, key=lambda attempt: (-attempt.fitness, attempt.node))[: _MOST_ATTEMPTS // 2]
    latest = [attempt for attempt in attempts if attempt not in best][-(_MOST_ATTEMPTS - len(best)) :]
    return [attempt for attempt in attempts if attempt in best or attempt in latest]


def _meant(attempt: Attempt) -> str:
    if attempt.rationale:
        return f"; idea: {' '.join(attempt.rationale.split())}"
    tunables = ", ".join(f"{name}={value}" for name, value in sorted(attempt.recipe.items()))
    return f"; {tunables}" if tunables else ""


def _learned(attempt: Attempt) -> str:
    return f"; {attempt.diagnosis.summary}" if attempt.diagnosis else ""


def _tensors(facts: Sequence[InputFact]) -> str:
    return ", ".join(
        f"{f.name} {f.dtype}{list(f.shape)}" if f.kind == "tensor" else f"{f.name} ({f.kind})" for f in facts
    )


def _bytes(size: int) -> str:
    return f"{size >> 10} KiB" if size > 0 else "unknown"


def _body(text: str) -> str:
    head, _, body = text.partition("\n---\n")
    return body.strip() if head.startswith("---") else text.strip()
