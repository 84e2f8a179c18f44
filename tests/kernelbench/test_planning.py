"""Which problems a run has before it."""

from pathlib import Path

from benched import row

from kernelswarm.bench.kernelbench import Outcome, Row, Task
from kernelswarm.bench.kernelbench.planning import Plan, plan

KEPT: dict[int, Row | None] = {
    1: row(1),
    2: None,
    3: row(3, verdict=Outcome.running, session="three-abcde"),
    4: row(4, verdict=Outcome.timeout),
    5: row(5, verdict=Outcome.refused),
}


def planned(*, budget: int = 3, **options: bool) -> Plan:
    tasks = [
        (Task(1, number, Path(f"{number}_Problem.py")), kept, row(number, verdict=Outcome.running, budget=budget))
        for number, kept in KEPT.items()
    ]
    return plan(tasks, **options)


def numbers(found: Plan) -> list[int]:
    return [task.number for task in found.todo]


def test_what_is_done_stays_done_and_what_was_under_way_goes_on() -> None:
    found = planned()
    assert numbers(found) == [2, 3]
    assert found.resumable == (KEPT[3],)
    assert found.told == ("3 of 5 problems are done already",)


def test_another_budget_does_everything_again_and_says_so_once() -> None:
    found = planned(budget=4)
    assert numbers(found) == [1, 2, 3, 4, 5] and found.resumable == ()
    assert found.told == ("done again, the budget changed: 1_Problem, 3_Problem, 4_Problem and 1 more",)


def test_fresh_does_everything_again() -> None:
    found = planned(fresh=True)
    assert numbers(found) == [1, 2, 3, 4, 5] and found.resumable == ()


def test_retry_does_again_what_another_day_may_change() -> None:
    found = planned(retry=True)
    assert numbers(found) == [2, 3, 4]
    assert "done again, it ended with a timeout: 4_Problem" in found.told
