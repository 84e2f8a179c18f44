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
    told = Story(session)
    told.open(synthesizer="anthropic", model="m-1", **changes)
    for number, ms in ((1, 2.0), (2, 1.0)):
        node = f"n{number}"
        told.plan(node, "", number, Intent.draft)
        told.say(called("draft it", f"```python\n# {node}\n```"), node=node)
        told.propose(node)
        told.time(node, ms)
    told.plan("n3", "", 3, Intent.draft)
    told.say(called("draft it", "", error="rate_limit: slow down", stop_reason="error"), node="n3")
    told.say(called("draft it", "```python\n# n3\n```", attempt=2), node="n3")
    told.propose("n3")
    told.say(diagnosed(verdict=Verdict.wrong_numbers), node="n3", agent="analyst")
    told.plan("n4", "", 4, Intent.draft)
    told.say(called("draft it", "I would rather not"), node="n4")
    told.say(SynthesisFailed(backend="anthropic", reason="no candidate"), node="n4")
    told.say(diagnosed(verdict=Verdict.synthesis_failed), node="n4", agent="analyst")
    told.plan("n5", "n2", 5, Intent.improve)
    told.say(called("improve n2", "```python\n# n5\n```"), node="n5")
    told.propose("n5", ("n2",))
    told.time("n5", 0.5)
    told.plan("n6", "n2", 6, Intent.improve)
    told.propose("n6", ("n2",))
    told.say(SessionClosed(reason="budget", best="n5", win=True, speedup=interval(4.0), against="eager"))
    return told.envelopes


def playbook_story(session: str = "rmsnorm-p1") -> list[Envelope]:
    """Two drafts, then three improvements of the second: two of them with one diagnosis, one after a confirmation."""
    told = Story(session)
    told.open()
    for number, ms in ((1, 2.0), (2, 1.0)):
        told.plan(f"n{number}", "", number, Intent.draft)
        told.propose(f"n{number}")
        told.time(f"n{number}", ms)
    for number, ms in ((3, 0.5), (4, 0.8)):
        told.plan(f"n{number}", "n2", number, Intent.improve)
        told.propose(f"n{number}", ("n2",))
        told.time(f"n{number}", ms)
    told.time("n2", 0.9, confirmation=True)
    told.plan("n5", "n2", 5, Intent.improve)
    told.propose("n5", ("n2",))
    told.time("n5", 0.7)
    return told.envelopes
