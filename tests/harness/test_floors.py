"""No implementation is faster than the machine; what an honest one may leave out does not count."""

import pytest
from msgspec.structs import replace

from kernelswarm.hardware.device import Device
from kernelswarm.hardware.machine.floors import dense_operations, floor_of
from kernelswarm.hardware.sources.problem_files import load_problem
from kernelswarm.schemas import Accelerator, HardwareFacts, Problem, ProblemFacts, Verdict

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _machine(**changes: object) -> HardwareFacts:
    fields: dict[str, object] = dict(
        device="test",
        cores=2,
        isa=(),
        vector_bytes=32,
        l2_bytes=1 << 20,
        l3_bytes=1 << 24,
        memory_bytes=16 << 30,
        copy_gbps=10.0,
        peak_gflops=100.0,
        bandwidths=((1 << 20, 100.0), (1 << 24, 20.0), (1 << 28, 10.0)),
    )
    return HardwareFacts(**(fields | changes))  # type: ignore[arg-type]


async def _validated(device: Device, folder, reference: str, inputs: str = "randn(n, n)") -> ProblemFacts:
    path = folder / "mine.py"
    drawn = inputs.replace(")", ", generator=generator)")
    path.write_text(
        "import torch\nshapes = {'main': dict(n=64)}\n"
        f"def inputs(generator, n): return [torch.{drawn}, torch.{drawn}]\n"
        f"def reference(a, b): return {reference}\n"
    )
    return await device.validate_problem(load_problem(path))


WHOLE = 64 * 64 * 4


@pytest.mark.parametrize(
    ("reference", "needed"),
    [
        ("a * b", 3 * WHOLE),
        ("(a[:8] * b[:8])", 3 * WHOLE // 8),
        ("a.tril() * 2 + b * 0", WHOLE // 2 + 128 + WHOLE),
        ("a @ b", 3 * WHOLE),
        ("(a > b)", WHOLE // 4),
        ("torch.argsort(a + b)", 2 * WHOLE),
        ("a.t(), a * b", 3 * WHOLE),
    ],
)
async def test_bytes_that_matter(device: Device, tmp_path, reference: str, needed: int) -> None:
    facts = await _validated(device, tmp_path, reference)

    assert facts.work.needed_bytes == pytest.approx(needed, rel=0.01), facts.capture_error


@pytest.mark.parametrize(
    ("reference", "operations"),
    [
        ("a @ b", 2 * 64**3),
        ("torch.relu(a.t() @ b) + 1", 2 * 64**3),
        ("(a @ b).sum(-1)", 0),
        ("(a @ b)[:4] * 2", 0),
        ("(a * b) @ b", 0),
        ("torch.diag(a[0]) @ b", 0),
        ("a @ b @ b", 0),
        ("a * b", 0),
    ],
)
async def test_operations_that_no_algebra_saves(device: Device, tmp_path, reference: str, operations: int) -> None:
    facts = await _validated(device, tmp_path, reference)

    assert facts.graph is not None, facts.capture_error
    assert dense_operations(facts.graph) == operations


async def test_a_floor_lies_below_what_was_measured(device: Device, tmp_path) -> None:
    facts = await _validated(device, tmp_path, "a * b")
    moved = floor_of(facts, _machine(), 3)

    assert moved.ns == pytest.approx(3 * WHOLE / 100.0 / 2)
    assert "GB/s" in moved.why
    assert floor_of(facts, _machine(bandwidths=()), 3).ns == 0.0, "the speed of a cache is not known"


async def test_what_a_device_keeps_in_its_cache_does_not_count(device: Device, tmp_path) -> None:
    facts = await _validated(device, tmp_path, "a * b")
    small, large = (
        Accelerator(index=0, name="test", uuid="test", target="sm_90", memory_bytes=1 << 36, l2_bytes=size)
        for size in (WHOLE, 4 * WHOLE)
    )

    assert floor_of(facts, _machine(accelerators=(small,), bandwidths=()), 3).ns == pytest.approx(2 * WHOLE / 10 / 2)
    assert floor_of(facts, _machine(accelerators=(large,), bandwidths=()), 3).ns == 0.0


async def test_products_have_a_floor_where_their_peak_is_known(device: Device, tmp_path) -> None:
    facts = await _validated(device, tmp_path, "a @ b")

    assert floor_of(facts, _machine(bandwidths=()), 3).ns == pytest.approx(2 * 64**3 / 100 / 8)
    assert "GFLOP/s" in floor_of(facts, _machine(bandwidths=()), 3).why


@pytest.fixture
def _small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is measured again in caches alone, which is quick."""
    monkeypatch.setattr("kernelswarm.hardware.machine.peaks.LARGEST_SET", 1)


@pytest.mark.usefixtures("_small_sets")
async def test_faster_than_the_machine_is_hidden_work(
    device: Device, problem: Problem, facts: ProblemFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"{problem.source}\nkernel = reference\n"
    report, _ = await device.compile(source, "cpp")
    monkeypatch.setattr(device, "_hardware", _machine())
    # So much to move that whoever needs microseconds does not move it.
    much = replace(facts, work=replace(facts.work, needed_bytes=1 << 40))

    profiled = await device.profile(problem, much, source, report)

    assert profiled.verdict is Verdict.hidden_work, profiled.evidence
    assert profiled.evidence is not None and "GB/s" in profiled.evidence.message
    assert profiled.timing is None


@pytest.mark.usefixtures("_small_sets")
async def test_a_machine_that_was_measured_too_slow_condemns_nobody(
    device: Device, problem: Problem, facts: ProblemFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"{problem.source}\nkernel = reference\n"
    report, _ = await device.compile(source, "cpp")
    monkeypatch.setattr(device, "_hardware", _machine(bandwidths=((1, 1e-3),), copy_gbps=1e-3))

    assert (await device.profile(problem, facts, source, report)).verdict is Verdict.correct
