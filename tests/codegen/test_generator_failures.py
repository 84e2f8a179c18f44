"""What the generator cannot do, or does wrong, is one sentence in an event, and nobody tries it again."""

import asyncio
import io
import os
import signal
import sys
from pathlib import Path

import graphs
import pytest

import given
from kernelswarm.agents.synthesizer.backend import Answer, Request
from kernelswarm.agents.synthesizer.drafting import Drafters
from kernelswarm.agents.synthesizer.generator import GeneratorBackend
from kernelswarm.cli.display.terminal import TRACEBACK_CHARACTERS, _end_of_traceback
from kernelswarm.codegen import Proposal
from kernelswarm.schemas import Graph, Intent, MemoryOperator, NodePlanned, Ref, SynthesisFailed


def failure(answer: Answer) -> SynthesisFailed:
    assert answer.failed is not None and answer.candidate is None
    return answer.failed


def request(source_graph: Graph) -> Request:
    plan = NodePlanned(
        parent="",
        intent=Intent.draft,
        memory=MemoryOperator.clean_slate,
        advice=(),
        draw=1,
        number=1,
        synthesizer="playbook",
    )
    return Request(
        problem=given.problem(),
        facts=graphs.facts(source_graph),
        pool=given.pool(),
        hardware=graphs.HARDWARE,
        plan=plan,
        node="n001",
        language="cpp",
    )


def chain(length: int) -> Graph:
    steps = [graphs.call("step0", "add.Tensor", (Ref(name="x"), 1), "s0", "s1")]
    for number in range(1, length):
        steps.append(graphs.call(f"step{number}", "tanh.default", (Ref(name=f"step{number - 1}"),), "s0", "s1"))
    return graphs.graph(graphs.source("x", "s0", "s1"), *steps, outputs=[f"step{length - 1}"])


async def test_a_chain_of_thousands_of_operations_is_generated() -> None:
    backend = GeneratorBackend()
    answer = await backend.synthesize(request(chain(3000)))
    await backend.close()
    assert answer.failed is None and answer.candidate is not None


async def test_a_defect_of_the_generator_is_a_sentence_and_its_traceback_is_shown_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    backend = GeneratorBackend()
    broken = graphs.graph(
        graphs.source("x", "s0", "s1"),
        graphs.call("y", "tanh.default", ("nowhere",), "s0", "s1"),
        outputs=["y"],
    )
    failed = failure(await backend.synthesize(request(broken)))
    assert failed == failure(await backend.synthesize(request(broken)))
    await backend.close()
    assert failed.reason.startswith("the generator has a defect: KeyError") and not failed.exhausted
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("no candidate") == 1


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


async def test_a_draft_that_is_cancelled_leaves_no_process_and_the_next_one_is_written() -> None:
    backend, before = GeneratorBackend(), children()
    drafting = asyncio.create_task(backend.synthesize(request(chain(3000))))
    while not children() - before:  # noqa: ASYNC110 - the process tells nobody that it is there
        await asyncio.sleep(0.01)
    drafting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await drafting
    assert children() == before
    assert (await backend.synthesize(request(chain(3)))).candidate is not None
    await backend.close()
    assert children() == before


async def test_a_draft_is_written_although_all_processes_were_killed() -> None:
    drafters, before = Drafters(2), children()
    first, _ = await asyncio.gather(*(drafters.draft(request(chain(3))) for _ in range(2)))
    for pid in children() - before:
        os.kill(pid, signal.SIGKILL)
    assert await drafters.draft(request(chain(3))) == first
    await drafters.close()
    assert children() == before


async def test_who_is_closed_while_it_writes_leaves_no_process() -> None:
    drafters, before = Drafters(1), children()
    drafting = asyncio.create_task(drafters.draft(request(chain(300))))
    while not children() - before:  # noqa: ASYNC110 - the process tells nobody that it is there
        await asyncio.sleep(0.01)
    await drafters.close()
    assert isinstance(await drafting, Proposal)
    assert children() == before


async def test_what_cannot_be_sent_is_a_defect() -> None:
    too_large = graphs.graph(
        graphs.source("x", "s0", "s1"),
        graphs.call("y", "add.Tensor", (Ref(name="x"), 1 << 70), "s0", "s1"),
        outputs=["y"],
    )
    failed = failure(await GeneratorBackend().synthesize(request(too_large)))
    assert failed.reason.startswith("the generator has a defect: OverflowError")


def test_of_a_long_traceback_the_end_is_shown() -> None:
    def deeper(number: int) -> int:
        return deeper(number + 1) if number % 2 else -deeper(number + 1)

    try:
        deeper(0)
    except RecursionError:
        shown = io.StringIO()
        _end_of_traceback(shown, sys.exc_info())  # type: ignore[arg-type]
    assert len(shown.getvalue()) <= TRACEBACK_CHARACTERS + 2
    assert "RecursionError" in shown.getvalue().splitlines()[-1]
