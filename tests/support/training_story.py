"""A session as a language model would leave it: drafts with one prompt, answers without a candidate, a repair."""

import json

from story import Story

from given import diagnosed, interval
from kernelswarm.schemas import Envelope, Intent, ModelCalled, SessionClosed, SynthesisFailed, Verdict


def called(prompt: str, completion: str, **changes: object) -> ModelCalled:
    texts = [{"type": "text", "text": text} for text in ("problem", prompt)]
    request = {
        "model": "m-1",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "You write kernels.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": texts}],
    }
    fields: dict[str, object] = dict(
        backend="anthropic",
        model="m-1",
        request=json.dumps(request, sort_keys=True),
        completion=completion,
        stop_reason="end_turn",
        input_tokens=9,
        output_tokens=9,
    )
    return ModelCalled(**(fields | changes))


def model_story(session: str = "softmax-m1", **changes: object) -> list[Envelope]:
    """n1 and n2: 1x and 2x from one prompt; n3: wrong, same prompt; n4: no candidate, same prompt; n5: 4x from n2;
    n6: not evaluated."""
    history = Story(session)
    history.open(synthesizer="anthropic", model="m-1", **changes)
    for number, ms in ((1, 2.0), (2, 1.0)):
        node = f"n{number}"
        history.plan(node, "", number, Intent.draft)
        history.say(called("draft it", f"```python\n# {node}\n```"), node=node)
        history.propose(node)
        history.time(node, ms)
    history.plan("n3", "", 3, Intent.draft)
    history.say(called("draft it", "", error="rate_limit: slow down", stop_reason="error"), node="n3")
    history.say(called("draft it", "```python\n# n3\n```", attempt=2), node="n3")
    history.propose("n3")
    history.say(diagnosed(verdict=Verdict.wrong_numbers), node="n3", agent="analyst")
    history.plan("n4", "", 4, Intent.draft)
    history.say(called("draft it", "I would rather not"), node="n4")
    history.say(SynthesisFailed(backend="anthropic", reason="no candidate"), node="n4")
    history.say(diagnosed(verdict=Verdict.synthesis_failed), node="n4", agent="analyst")
    history.plan("n5", "n2", 5, Intent.improve)
    history.say(called("improve n2", "```python\n# n5\n```"), node="n5")
    history.propose("n5", ("n2",))
    history.time("n5", 0.5)
    history.plan("n6", "n2", 6, Intent.improve)
    history.propose("n6", ("n2",))
    history.say(SessionClosed(reason="budget", best="n5", win=True, speedup=interval(4.0), against="eager"))
    return history.envelopes


def generator_story(session: str = "rmsnorm-p1") -> list[Envelope]:
    """Two drafts, then three improvements of the second: two of them with one diagnosis, one after a confirmation."""
    history = Story(session)
    history.open()
    for number, ms in ((1, 2.0), (2, 1.0)):
        history.plan(f"n{number}", "", number, Intent.draft)
        history.propose(f"n{number}")
        history.time(f"n{number}", ms)
    for number, ms in ((3, 0.5), (4, 0.8)):
        history.plan(f"n{number}", "n2", number, Intent.improve)
        history.propose(f"n{number}", ("n2",))
        history.time(f"n{number}", ms)
    history.time("n2", 0.9, confirmation=True)
    history.plan("n5", "n2", 5, Intent.improve)
    history.propose("n5", ("n2",))
    history.time("n5", 0.7)
    return history.envelopes
