"""The first request of a process takes no more of the event loop than the second: what a vendor's library imports and
builds with it is there before, by a conversation on loopback in a thread.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio, contextlib, json, sys
from pathlib import Path

from autogen_core.models import UserMessage
from model_server import Failed, Said, model_server
from pydantic._internal._generate_schema import GenerateSchema

from kernelswarm.agents.synthesizer.backend import open_backend
from kernelswarm.agents.synthesizer.model.faults import ModelFault
from kernelswarm.agents.synthesizer.model.settings import Settings

TOOL = {"name": "read", "description": "Read.", "parameters": {"type": "object", "properties": {"a": {}}}}
THOUGHT = ({"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "So."})
SCRIPT = [
    Said("text"), Said("text", tools=(("read", {"a": 1}),)), Said("text", stop="length"), Said("no", stop="refusal"),
    *([Said(blocks=THOUGHT)] if sys.argv[1] == "anthropic" else ()), Failed(500, "api_error", "later"),
]
schemas = []
generate = GenerateSchema.__init__

def counted(self, *arguments, **options):
    schemas.append(1)
    generate(self, *arguments, **options)

@contextlib.asynccontextmanager
async def admitted(price, asked, answer):
    yield answer

async def main():
    kind = type(open_backend(sys.argv[1]))
    async with model_server() as server:
        server.script = list(SCRIPT)
        backend = kind(Settings(vendor=kind.vendor, key="k", url=server.url, attempts=1))
        client = await backend.open_client(
            "m", "", Path(sys.argv[2]), lambda call: None, admit=admitted
        )
        GenerateSchema.__init__ = counted
        modules, answers = set(sys.modules), 0
        for _ in SCRIPT:
            with contextlib.suppress(ModelFault):
                await client.create([UserMessage(content="Ask.", source="user")], tools=[TOOL])
                answers += 1
        asked = [len(server.heads), answers]
        await backend.close()
    print(json.dumps([asked, len(SCRIPT), len(schemas), sorted(set(sys.modules) - modules)]))

asyncio.run(main())
"""


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_nothing_is_imported_or_built_while_a_model_is_asked(vendor: str, tmp_path: Path) -> None:
    support = str(Path(__file__).parents[1] / "support")
    printed = subprocess.run(
        [sys.executable, "-c", PROGRAM, vendor, str(tmp_path)],
        env={"PYTHONPATH": support},
        capture_output=True,
        text=True,
    )
    assert not printed.stderr, printed.stderr
    (requests, answers), scripted, schemas, modules = json.loads(printed.stdout)
    assert (requests, answers) == (scripted, scripted - 1)
    assert (schemas, modules) == (0, [])
