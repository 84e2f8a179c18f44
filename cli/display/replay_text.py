"""What a replay came to, for people and programs."""

from rich.markup import escape
from rich.table import Table

from ...schemas import ReplayDivergence, Schema
from ...sessions.re_evaluation import ReEvaluatedCandidate, ReEvaluation
from ...sessions.replay import ReplayReport
from .summary import NAMES, count
from .terminal import err, out, plain_table, print_json, print_wide

MOST_UNSAID = 6
"""Lines about what comes next."""

OTHER_BASELINE = "other baseline"
WITHIN_NOISE = "within the noise"
NOTES = {
    OTHER_BASELINE: "another baseline is the best one now, so the two speedups are against different things",
    WITHIN_NOISE: "the two intervals overlap, so the difference may be none",
}
"""What is noted beside a candidate, and what it means."""


class Diverged(Schema, frozen=True, kw_only=True):
    """A divergence as ``--json`` prints it."""

    session: str
    diverged: bool
    reason: str
    event: str
    seq: int | None
    recorded: str | None
    replayed: str | None


def print_replay(report: ReplayReport) -> None:
    """Print what was compared, and what the fresh agents would say next."""
    compared = ", ".join(f"{role} {number}" for role, number in report.compared.items())
    until = f" up to event {report.until}" if report.until else ""
    out.print(
        f"[bold green]same[/]  {report.session}: {count(report.events, 'event')} fed{until}; equal outputs: {compared}"
    )
    if report.prompts or report.prompts_changed:
        asked = report.prompts + len(report.prompts_changed)
        out.print(f"questions to models in the same words, to the byte: {report.prompts} of {asked}", markup=False)
    if report.candidates or report.candidates_changed:
        files = report.candidates + len(report.candidates_changed)
        out.print(f"files read out of their answers again, to the byte: {report.candidates} of {files}", markup=False)
    if report.given_up:
        out.print(f"{count(report.given_up, 'step')} given up when it was recorded: taken as an effect", markup=False)
    if report.unknown:
        out.print(f"{count(report.unknown, 'event')} of a newer version: fed to nobody", markup=False)
    if report.unsaid:
        after = "next" if report.until else f"the session is {report.status}; not in the log"
        out.print(f"{after}:", markup=False)
        for line in report.unsaid[:MOST_UNSAID]:
            out.print(f"  {line}", markup=False)
        if len(report.unsaid) > MOST_UNSAID:
            out.print(f"  … and {len(report.unsaid) - MOST_UNSAID} more")


def print_divergence(error: ReplayDivergence, *, json: bool) -> None:
    """Print the first difference with both sides."""
    if json:
        print_json(
            Diverged(
                session=error.session,
                diverged=True,
                reason=str(error),
                event=error.event,
                seq=error.seq,
                recorded=error.recorded,
                replayed=error.replayed,
            )
        )
        return
    err.print(f"[bold red]error[/]: {escape(str(error))}")
    out.print(f"recorded  {error.recorded or 'nothing'}", markup=False)
    out.print(f"replayed  {error.replayed or 'nothing'}", markup=False)


def say_judged(candidate: ReEvaluatedCandidate) -> None:
    """One line for a candidate that was evaluated again."""
    err.print(f"{candidate.node}  {candidate.recorded} recorded, now {_now(candidate)}", markup=False)


def print_re_evaluation(result: ReEvaluation) -> None:
    """Print both rankings side by side, and what must not be read into them."""
    print_wide(_rankings(result))
    noted = {note for candidate in result.candidates for note in _notes(candidate)}
    for note, meaning in NOTES.items():
        if note in noted:
            out.print(f"{note}: {meaning}", markup=False)
    out.print(f"recorded on {result.recorded_on}; now pool {result.pool}: {result.device}", markup=False)
    correlation = "" if result.rank_correlation is None else f"; rank correlation {result.rank_correlation:.2f}"
    lost = result.wins_recorded - result.wins_kept
    out.print(f"{count(result.wins_kept, 'win')} kept, {lost} lost, {result.wins_new} new{correlation}", markup=False)
    out.print(_best(result), markup=False)


def _rankings(result: ReEvaluation) -> Table:
    table = plain_table()
    for column in ("node", "rank", "now", "recorded", "now", "against", "now", ""):
        table.add_column(column, justify="right" if column in ("rank", "now") else "left", no_wrap=True)
    for candidate in result.candidates:
        rank = str(candidate.rank_now) if candidate.rank_now is not None else "-"
        style = "green" if candidate.kept else ("red" if candidate.recorded.is_win else "")
        against = (NAMES.get(name, name) for name in (candidate.against, candidate.against_now))
        speedups = (candidate.recorded.in_words, escape(_now(candidate)))
        table.add_row(
            candidate.node, str(candidate.rank), rank, *speedups, *against, ", ".join(_notes(candidate)), style=style
        )
    return table


def _notes(candidate: ReEvaluatedCandidate) -> list[str]:
    """Why the two speedups of a row do not simply compare."""
    if candidate.now is None:
        return []
    overlap = candidate.recorded.low <= candidate.now.high and candidate.now.low <= candidate.recorded.high
    return [OTHER_BASELINE] * (candidate.against != candidate.against_now) + [WITHIN_NOISE] * overlap


def _best(result: ReEvaluation) -> str:
    then = result.candidates[0]
    best = next((candidate for candidate in result.candidates if candidate.node == result.best), None)
    if best is None or best.now is None:
        return "none of them is correct here"
    if best is then:
        return f"{then.node} is still the best"
    if then.now is not None and then.now.high >= best.now.low:
        return f"{best.node} comes out first, and {then.node}, the recorded best, is within its interval"
    return f"the best is now {best.node}, not {then.node}"


def _now(candidate: ReEvaluatedCandidate) -> str:
    if candidate.now is not None:
        return candidate.now.in_words
    return f"{candidate.verdict.replace('_', ' ')}: {candidate.reason}".splitlines()[0][:80]
