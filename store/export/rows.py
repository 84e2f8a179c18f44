"""The rows of the training formats. ``docs/export.md`` says the same in a table; a test compares them.

Every field of every row is there and has one type, so that readers which guess a schema from the first rows are right.
"""

from ...schemas import Schema
from .prompts import ChatMessage, Prompt


class SftRow(Schema, frozen=True, kw_only=True):
    """One step of the path that led to a session's best kernel."""

    session: str
    """Id of the session."""
    problem: str
    """Name of the problem."""
    problem_sha256: str
    """Hash of the problem's source before redaction, hex."""
    pool: str
    """Hardware pool it was measured on."""
    device: str
    """Processor or accelerator."""
    node: str
    """Node that this step made."""
    node_session: str
    """Session of that node: another one where the path goes through a fork's origin."""
    step: int
    """Position on the path, from 1 (the draft)."""
    steps: int
    """Length of the path."""
    author: str
    """Model, or the author's name where no model was asked."""
    prompt: Prompt
    """Messages (``role``, ``content``) that the step answered."""
    completion: Prompt
    """The answer: one ``assistant`` message."""
    prompt_sha256: str
    """Hash of the prompt state before redaction, hex."""
    verdict: str
    """``correct``, or what is wrong with this step's candidate."""
    reward: float
    """This step's median speedup against the best baseline, a factor; 0 if wrong."""
    best_reward: float
    """The same of the path's last node."""
    win: bool
    """Whether the session's confirmed interval lies above 1."""


class SameState(Schema, frozen=True, kw_only=True):
    """What the answers of a pair or a group have in common: everything before the answer."""

    session: str
    """Id of the session."""
    problem: str
    """Name of the problem."""
    problem_sha256: str
    """Hash of the problem's source before redaction, hex."""
    pool: str
    """Hardware pool all were measured on."""
    device: str
    """Processor or accelerator."""
    parent: str
    """Node that all started from; empty for drafts."""
    author: str
    """Model, or the author's name where no model was asked."""
    prompt: Prompt
    """Messages (``role``, ``content``) that all answered."""
    prompt_sha256: str
    """Hash of the prompt state before redaction, hex: the same for all by construction."""


class DpoRow(SameState, frozen=True, kw_only=True):
    """Two answers to one prompt state, of which one is measurably better."""

    chosen: Prompt
    """The better answer: one ``assistant`` message."""
    rejected: Prompt
    """The worse answer: one ``assistant`` message."""
    chosen_node: str
    """Node of the better answer."""
    rejected_node: str
    """Node of the worse answer."""
    chosen_verdict: str
    """Always ``correct``."""
    rejected_verdict: str
    """``correct`` (but slower), or what is wrong."""
    chosen_reward: float
    """Median speedup against the best baseline, a factor."""
    rejected_reward: float
    """The same; 0 if wrong."""
    margin: float
    """``chosen_reward - rejected_reward``."""


class GrpoRow(SameState, frozen=True, kw_only=True):
    """All answers of one author to one prompt state, two at least. The lists are in the same order."""

    completions: tuple[tuple[ChatMessage, ...], ...]
    """The answers, each one ``assistant`` message."""
    nodes: tuple[str, ...]
    """Node of each answer."""
    verdicts: tuple[str, ...]
    """``correct``, or what is wrong."""
    rewards: tuple[float, ...]
    """Median speedup against the best baseline, a factor; 0 if wrong."""
    advantages: tuple[float, ...]
    """``(reward - mean) / standard deviation`` of the group (population); all 0 if the rewards are equal."""


def answer(text: str) -> Prompt:
    """A completion as the conversation's next message."""
    return (ChatMessage(role="assistant", content=text),)
