"""A conversation with each vendor's own service: in `make test-all`, only with a key, for a few cents at most."""

import os

import pytest

from kernelswarm.agents.synthesizer.backend import open_backend
from kernelswarm.agents.synthesizer.model.desk import DeskError
from kernelswarm.agents.synthesizer.model.prices import price_of
from kernelswarm.agents.synthesizer.model.settings import Settings
from kernelswarm.agents.synthesizer.model.spending import Ledger, Limits
from kernelswarm.agents.synthesizer.model.surroundings import Surroundings

MODELS = {"anthropic": "claude-haiku-5-5", "openai": "gpt-6-luna"}
KEYS = {name: os.environ.get(f"{name.upper()}_API_KEY", "") for name in MODELS}
"""Read before fixtures take them out of the environment."""
MOST_DOLLARS = 0.10


class Desk:
    """Nobody checks here, and the log is empty."""

    async def check(self, source, *, compile_only):
        raise DeskError("nobody checks now: hand in without")

    async def ask(self, question, values):
        return "nothing yet"

    async def assembly(self, node):
        return "nothing"


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
async def test_a_real_model_hands_a_file_in(name, make_request, replayed):
    if not KEYS[name]:
        pytest.skip(f"{name.upper()}_API_KEY is not set")
    vendor = open_backend(name).vendor
    backend = type(open_backend(name))(Settings(vendor=vendor, key=KEYS[name], url=vendor.url, max_tokens=8_000))
    request = make_request(model=MODELS[name])
    around = Surroundings(desk=Desk(), limits=Limits(cost=MOST_DOLLARS), ledger=Ledger())
    try:
        answer = await backend.converse(request, around)
    finally:
        await backend.close()
    assert answer.candidate is not None, answer.failed
    assert price_of(MODELS[name], vendor.url) is not None
    assert all(call.cost and not call.estimated for call in answer.calls if not call.error)
    await replayed(answer, request)
