"""Which problems a run has before it."""

from benched import row, task

from kernelswarm.bench.runs import Outcome, Row
from kernelswarm.bench.runs.planning import Plan, plan

KEPT: dict[int, Row | None] = {
    1: row(1),
    2: None,
    3: row(3, verdict=Outcome.running, session="three-abcde"),
    4: row(4, verdict=Outcome.timeout),
    5: row(5, verdict=Outcome.refused),
}


def planned(*, budget: int = 3, **options: bool) -> Plan:
    tasks = [
        (task(number), recorded, row(number, verdict=Outcome.running, budget=budget))
        for number, recorded in KEPT.items()
    ]
    return plan(tasks, **options)


def numbers(work_plan: Plan) -> list[int]:
    return [task.number for task in work_plan.todo]


def test_what_is_done_stays_done_and_what_was_under_way_goes_on() -> None:
    work_plan = planned()
    assert numbers(work_plan) == [2, 3]
    assert work_plan.resumable == (KEPT[3],)
    assert work_plan.messages == ("3 of 5 problems are done already",)


def test_one_name_in_two_subsets_is_two_problems() -> None:
    tasks = [
        (task(1, subset=subset), row(1, subset=subset, budget=budget), row(1, subset=subset))
        for subset, budget in (("L1", 3), ("L2", 4))
    ]
    work_plan = plan(tasks)
    assert [each.key for each in work_plan.todo] == [("L2", "1_Problem")] and work_plan.again == {("L2", "1_Problem")}


def test_another_budget_does_everything_again_and_says_so_once() -> None:
    work_plan = planned(budget=4)
    assert numbers(work_plan) == [1, 2, 3, 4, 5] and work_plan.resumable == ()
    assert work_plan.messages == ("done again, the budget changed: 1_Problem, 3_Problem, 4_Problem and 1 more",)


def test_fresh_does_everything_again() -> None:
    work_plan = planned(fresh=True)
    assert numbers(work_plan) == [1, 2, 3, 4, 5] and work_plan.resumable == ()


def test_retry_does_again_what_another_day_may_change() -> None:
    work_plan = planned(retry=True)
    assert numbers(work_plan) == [2, 3, 4]
    assert "done again, it ended with a timeout: 4_Problem" in work_plan.messages
