"""A session as text: what was asked, what came out, and the graph as a tree."""

from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from ...schemas import user_names
from ...store import NodeRow, SessionReport, SessionRow
from .summary import count, doubts_text, outcome, speedup_text, times_text
from .terminal import out, print_wide

WRONG_WIDTH = 100
"""Characters of what is said about a node that is not right."""


def print_session(report: SessionReport) -> None:
    """Print it whole."""
    row = report.session
    out.print(f"[bold]{escape(row.session)}[/]  {escape(row.problem)} on pool {escape(row.pool)}: {_device(row)}")
    out.print(_outcome(row))
    out.print(_settings(row), markup=False)
    if report.baselines_ms:
        out.print("baselines  " + times_text(report.baselines_ms, report.timed_shapes), markup=False)
    if report.best_path:
        out.print("best path  " + " → ".join(report.best_path), markup=False)
    if report.nodes:
        out.print()
        print_wide(graph(report.nodes, row.best or ""))
        out.print()
        shown = row.best or report.nodes[0].node
        files = "--source prints the candidate, --file the finished best.py"
        out.print(f"look  kernelswarm show {row.session} --node {shown}   ({files})", markup=False)


def graph(nodes: tuple[NodeRow, ...], best: str) -> Tree:
    """The search graph: every node below the one it was made from."""
    root = Tree("", hide_root=True, guide_style="dim")
    placed: dict[str, Tree] = {}
    for node in nodes:
        # In the order of planning a parent comes before its children; a fork's parent is in another session.
        placed[node.node] = placed.get(node.parent, root).add(_label(node, node.node == best))
    return root


def _label(node: NodeRow, best: bool) -> Text:
    name = Text.assemble((node.node, "bold green" if best else "bold"), f" {node.intent:<7} ")
    if node.verdict is None:
        return name.append(node.state.replace("_", " "), style="dim")
    if node.verdict != "correct":
        lines = (node.summary or "").splitlines()
        verdict = "no candidate" if node.verdict == "synthesis_failed" else node.verdict.replace("_", " ")
        name.append(verdict, style="red")
        return name.append(f"  {lines[0][:WRONG_WIDTH]}" if lines else "", style="dim")
    name.append(_speedups(node), style="green" if _is_win(node) else "")
    name.append(f"  {doubts}" if (doubts := doubts_text(node)) else "", style="yellow")
    if node.roofline_fraction is not None:
        name.append(f"  roofline {node.roofline_fraction:.0%}", style="dim")
    name.append(f"  {(node.bottleneck or '').replace('_', ' ')}", style="dim")
    return name.append("  confirmed" if node.confirmed else "", style="cyan")


def _speedups(node: NodeRow) -> str:
    """Ordinary processes first, where they were timed."""
    judged = speedup_text(node.speedup, node.speedup_low, node.speedup_high)
    if node.call_speedup is not None:
        call = speedup_text(node.call_speedup, node.call_low, node.call_high)
        numbers = [f"{judged} on the device", f"{call} as a call"]
        return ", ".join(numbers if node.measure == "device" else reversed(numbers))
    if node.ordinary_speedup is None:
        return judged
    ordinary = speedup_text(node.ordinary_speedup, node.ordinary_low, node.ordinary_high)
    return f"{ordinary} in ordinary processes, {judged} by the judge"


def _is_win(node: NodeRow) -> bool:
    call = None if node.measure == "device" else node.call_low
    return all(low is None or low > 1.0 for low in (node.speedup_low, node.ordinary_low, call))


def _device(row: SessionRow) -> str:
    return escape(row.device or "unknown hardware")


def _outcome(row: SessionRow) -> str:
    if row.status == "open":
        return f"[yellow]open[/]  {row.candidates} of {row.budget} candidates so far; started {row.at[:19]} UTC"
    outcome_text = outcome(row.win, row.detail or "", row.measure)
    return f"{outcome_text}; ended: {escape(row.reason or '')}, after {row.seconds:.0f} s"


def _settings(row: SessionRow) -> str:
    limits = [f"budget {row.budget}"]
    limits += [f"{row.minutes:g} minutes"] if row.minutes is not None else []
    limits += [f"target {row.target:g}x"] if row.target is not None else []
    limits += [f"against {row.win_against}"] if row.win_against not in (None, "best") else []
    limits += [f"measure {row.measure}"] if row.measure == "call" else []
    who = " ".join(filter(None, (user_names(row.synthesizer or ""), row.model)))
    place = f"at {row.origin_node}" if row.origin_node else "as of an event"
    fork = f", forked from {row.origin_session} {place}" if row.origin_session else ""
    counts = f"{count(row.candidates, 'candidate')}, {row.correct} correct, {count(row.wins, 'win')}"
    return f"{', '.join(limits)}, seed {row.seed}, policy {row.policy}, author {who}{fork}: {counts}"
