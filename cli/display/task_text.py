"""Tasks of outside authors as text: lists, briefs, verdicts, the leaderboard."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from ...graph.session_graph import SearchGraph
from ...schemas import ShapeFacts
from ...sessions.outside.records import (
    CheckAnswer,
    Finish,
    HandInAnswer,
    Leaderboard,
    NodeAnswer,
    Place,
    TaskBrief,
    TaskRow,
)
from .formatting import cell
from .summary import NAMES, count, times_text
from .terminal import out, plain_table, print_wide


def print_tasks(rows: Sequence[TaskRow]) -> None:
    """One row for each task."""
    table = plain_table("task", "problem", "pool", "wanted", "state", "by", "verdict", "speedup", no_wrap=True)
    for row in rows:
        wanted = f"{row.intent} of {row.parent}" if row.parent else row.intent
        left = f" ({row.minutes_left:.0f} min left)" if row.minutes_left is not None else ""
        speedup = "too noisy" if row.noisy else f"{row.speedup:.2f}x" if row.speedup else ""
        cells = (row.task, row.problem, row.pool, wanted, row.state + left, row.agent, row.verdict or "", speedup)
        table.add_row(*map(Text, cells))
    print_wide(table)


def outside_text(graph: SearchGraph) -> str:
    """Who a session waits for outside, and how they claim; empty if it waits for nobody."""
    free, held = len(graph.tasks.free()), graph.tasks.held()
    if graph.closed is not None or not (free or held):
        return ""
    holders = ", ".join(dict.fromkeys(lease.agent for lease in held))
    parts = [f"{count(free, 'task')} free"] * bool(free) + [f"{count(len(held), 'task')} held by {holders}"] * bool(
        held
    )
    claim = "" if graph.stop is not None else f"; to claim: kernelswarm tasks claim {graph.session}"
    return f"outside authors: {', '.join(parts)}{claim}"


def print_brief(brief: TaskBrief) -> None:
    """What there is to do, and what is known."""
    for line in _brief(brief):
        out.print(line, markup=False)


def _brief(brief: TaskBrief) -> Iterator[str]:
    yield f"task      {brief.task}  {brief.intent}, {brief.state}"
    if brief.lease:
        left = f"{brief.lease.minutes_left:.0f} min, {brief.lease.checks_left} checks left"
        yield f"lease     {brief.lease.lease}  ({left})"
    yield f"write     {brief.write}; in {', '.join(brief.languages)} or plain PyTorch"
    for sentence in brief.contract:
        yield f"contract  {sentence}"
    for note in brief.notes:
        yield f"note      {note}"
    yield f"machine   {brief.hardware.device}, {brief.hardware.cores} cores (pool {brief.pool})"
    for shape in brief.shapes:
        yield f"shape     {shape.name}: {_shape(shape)}"
    if brief.baselines_ms:
        floor = f"; no faster than {brief.floor_ms:.3f} ms" if brief.floor_ms else ""
        timed = sum(shape.weight > 0 for shape in brief.shapes)
        yield f"baselines {times_text(brief.baselines_ms, timed)}{floor}"
    for advice in brief.advice:
        yield f"advice    {advice.action}: {advice.reason}"
    for title, answer in (("parent", brief.parent), ("second", brief.second), ("best", next(iter(brief.tried), None))):
        if answer is not None:
            yield f"{title:<9} {_place(answer)}"
    yield f"\n# {brief.problem}: the reference\n{brief.reference.strip()}"
    if brief.parent is not None and brief.parent.source:
        yield f"\n# {brief.parent.task}: the kernel to start from\n{brief.parent.source.strip()}"


def _shape(shape: ShapeFacts) -> str:
    inputs = (f"{fact.name} {fact.dtype}{list(fact.shape)}" if fact.dtype else fact.name for fact in shape.inputs)
    return ", ".join(inputs)


def _place(answer: NodeAnswer | Place) -> str:
    speedup = f" {answer.speedup.in_words}" if answer.speedup else ""
    return f"{answer.task} by {answer.author}{speedup}: {answer.summary}"


def print_answer(answer: NodeAnswer) -> None:
    """What is known of a node, without its source."""
    for line in _answer(answer):
        out.print(line, markup=False)


def _answer(answer: NodeAnswer) -> Iterator[str]:
    verdict = f": {answer.verdict.replace('_', ' ')}" if answer.verdict else ""
    yield f"{answer.task}  {answer.state}{verdict}"
    if answer.summary:
        yield f"          {answer.summary}"
    if answer.speedup:
        against = NAMES.get(answer.against, answer.against)
        doubts = f", {answer.doubts}" if answer.doubts else ""
        times = times_text(answer.times_ms, answer.timed_shapes)
        yield f"speedup   {answer.speedup.in_words} against {against}{doubts}  ({times})"
    yield from _evidence(answer)
    for finding in answer.findings:
        yield f"finding   {finding.name} {finding.value}: {finding.meaning}"
    for advice in answer.advice:
        yield f"advice    {advice.action}: {advice.reason}"


def _evidence(answer: NodeAnswer | CheckAnswer) -> Iterator[str]:
    evidence = answer.evidence
    if evidence is not None:
        if evidence.message not in answer.summary:
            yield f"evidence  {evidence.message}"
        if evidence.log:
            yield cell(evidence.log)
    for message in answer.diagnostics:
        yield f"compiler  {message.line}:{message.column}: {message.severity}: {message.message}"
    if not answer.diagnostics and answer.log:
        yield answer.log
    for kernel in answer.kernels:
        yield f"kernel    {kernel.name}: {kernel.registers} registers, {kernel.spill_bytes} bytes spilled"


def print_check(answer: CheckAnswer) -> None:
    """What a check came to."""
    out.print(f"{answer.lease}  {answer.verdict.replace('_', ' ')}: {answer.summary}", markup=False)
    for line in _evidence(answer):
        out.print(line, markup=False)
    out.print(f"checks left  {answer.checks_left}", markup=False)


def print_hand_in(answer: HandInAnswer) -> None:
    """What a hand-in came to, and what can be claimed next."""
    if answer.reason:
        out.print(f"{answer.lease}  {answer.reason}", markup=False)
    if answer.answer is not None:
        print_answer(answer.answer)
        if answer.answer.state == "judging":
            out.print(f"look      kernelswarm tasks show {answer.answer.task}", markup=False)
        if answer.answer.noisy:
            out.print("again     hand the same file in under another lease: it is timed again", markup=False)
    if answer.free:
        out.print(f"next      kernelswarm tasks claim {answer.free[0]}", markup=False)


def print_leaderboard(board: Leaderboard) -> None:
    """A session's candidates, best first."""
    out.print(f"{board.session}  {board.state}, {board.judged}/{board.budget} candidates  {board.detail}", markup=False)
    judged, ordinary = board.numbers
    has_ordinary = any(place.ordinary_speedup or place.call_speedup for place in board.places)
    columns = ("", "task", "by", "verdict", judged, *[ordinary] * has_ordinary, "what it is")
    table = plain_table(*columns, no_wrap=True)
    for place in board.places:
        beside = place.ordinary_speedup or place.call_speedup
        numbers = [str(number or "") for number in (place.speedup, beside)[: 1 + has_ordinary]]
        verdict = ("confirmed" if place.confirmed else "correct") if place.speedup else place.verdict.replace("_", " ")
        what = "; ".join(filter(None, (place.doubts, place.summary.partition("\n")[0])))
        cells = (str(place.rank), place.task, place.author, verdict, *numbers, what)
        table.add_row(*map(Text, cells), style="green" if place.win else "")
    print_wide(table)
    print_withdrawn(board.withdrawn)


def print_finish(done: Finish) -> None:
    """How far a session is on its way to its end."""
    out.print(f"{done.session}  {done.state}: {done.detail}", markup=False)
    print_withdrawn(done.withdrawn)


def print_withdrawn(tasks: Sequence[str]) -> None:
    """Which tasks nobody handed in, if there are some."""
    if tasks:
        out.print(f"withdrawn  nobody handed in {', '.join(tasks)}", markup=False)
