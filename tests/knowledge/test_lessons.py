"""What a session's trials teach, and the skill made of it."""

import pytest

from kernelswarm.knowledge import Trial, best_trials, distill, failures, tunable_effects
from kernelswarm.knowledge import front_matter as fm
from kernelswarm.schemas import (
    Config,
    Interval,
    Pool,
    Problem,
    ProblemFacts,
    ProblemFormat,
    Verdict,
    Work,
    encode,
    sha256,
)

POOL = Pool(name="cpu", platform="cpu", languages=("cpp",))
PROBLEM = Problem(name="rmsnorm", format=ProblemFormat.function, source="s", sha256=sha256("s"))
FACTS = ProblemFacts(
    signature=("x",), shapes=(), graph=None, work=Work(read_bytes=33_554_432, write_bytes=33_554_432, flops=8_000_000),
    dtype="float32", float64_oracle=True, operators=("aten.mul.Tensor", "aten.mean.dim"),
)  # fmt: skip


def trial(node: str, speedup: float, parent: str = "p", verdict: Verdict = Verdict.correct, **config) -> Trial:
    return Trial(node=node, parent=parent, recipe=config, verdict=verdict, speedup=speedup, evidence=(f"e-{node}",))


def test_a_tunable_is_judged_by_pairs_that_differ_in_it_alone():
    trials = [
        trial("a", 1.0, huge=False, grain=1),
        trial("b", 2.0, huge=True, grain=1),
        trial("c", 1.0, huge=False, grain=8),
        trial("d", 0.5 * 3, huge=True, grain=8, parent="q"),
        trial("e", 9.0, huge=True, grain=64, vector=16),
    ]
    huge, grain = tunable_effects(trials)
    assert (huge.tunable, huge.better, huge.worse) == ("huge", True, False)
    assert huge.ratio == pytest.approx((2.0 * 1.5) ** 0.5)
    assert (huge.low, huge.high, huge.pairs, huge.parents) == (1.5, 2.0, 2, 1)
    assert (grain.tunable, grain.better, grain.worse, grain.pairs) == ("grain", 1, 8, 2)
    assert grain.low == 1.0 and grain.high == pytest.approx(4 / 3)


def test_a_tunable_that_one_config_lacks_is_compared_with_its_absence():
    (effect,) = tunable_effects([trial("a", 1.0, x=1), trial("b", 2.0, x=1, stream=True)])
    assert (effect.tunable, effect.better, effect.worse) == ("stream", True, None)


def test_one_true_and_text_are_three_settings():
    trials = [trial("a", 1.0, x=1), trial("b", 2.0, x=True), trial("c", 4.0, x="1")]
    assert {(e.better, e.worse) for e in tunable_effects(trials)} == {(True, 1), ("1", True), ("1", 1)}


def test_noise_and_wrong_trials_teach_nothing():
    assert tunable_effects([trial("a", 1.0, x=1), trial("b", 1.01, x=2)]) == ()
    assert tunable_effects([trial("a", 1.0, x=1), trial("b", 0.0, x=2, verdict=Verdict.wrong_numbers)]) == ()
    assert tunable_effects([trial("a", 1.0, x=1), trial("b", 5.0, x=2, verdict=Verdict.tampering)]) == ()


def test_of_a_speedup_that_is_too_noisy_no_effect_is_read():
    noise = Trial(node="a", recipe={"x": 1}, speedup=0.01, is_noise=True)
    assert tunable_effects([noise, trial("b", 2.0, x=2)]) == ()


def test_the_order_of_the_trials_does_not_matter():
    trials = [trial(str(i), 1.0 + i / 7, a=i % 3, b=i % 2) for i in range(12)]
    assert tunable_effects(trials) == tunable_effects(trials[::-1])
    assert best_trials(trials) == best_trials(trials[::-1])


def test_the_best_are_diverse_if_they_can_be():
    trials = [
        trial("a", 3.0, x=1, y=1, z=1),
        trial("b", 2.9, x=1, y=1, z=2),
        trial("c", 2.5, x=2, y=2, z=1),
        trial("d", 2.0, x=3, y=3, z=3),
        trial("e", 0.9, x=4, y=4, z=4),
    ]
    assert [t.node for t in best_trials(trials)] == ["a", "c", "d"]
    assert [t.node for t in best_trials(trials[:2])] == ["a", "b"]
    assert best_trials([trials[4], trial("f", 4.0)]) == ()


def test_a_setting_that_never_worked_is_a_failure():
    wrong = Verdict.wrong_numbers
    trials = [
        trial("a", 1.0, math="exact"),
        trial("b", 0.0, math="fast", verdict=wrong),
        trial("c", 0.0, math="fast", verdict=wrong),
        trial("d", 0.0, math="odd", verdict=wrong),
    ]
    (failure,) = failures(trials)
    assert (failure.tunable, failure.value, failure.verdict, failure.count) == ("math", "fast", wrong, 2)


def session() -> list[Trial]:
    best = Trial(
        node="n3", parent="n1", recipe={"huge": True, "grain": 4}, speedup=1.9, bottleneck="memory_bandwidth",
        interval=Interval(median=1.9, low=1.8, high=2.0), evidence=("e-n3", "e-confirm"),
    )  # fmt: skip
    return [trial("n1", 1.1, parent="", huge=False, grain=4), trial("n2", 0.0, verdict=Verdict.crash, huge=True), best]


def test_a_skill_says_when_what_and_how_much():
    skill = distill(PROBLEM, FACTS, POOL, session(), session="rmsnorm-7", against="compile")
    head, body = fm.split(skill.text, "skill")
    assert skill.title == head["title"] == "rmsnorm: 1.90x and what it took"
    assert skill.recipes == ({"huge": True, "grain": 4}, {"huge": False, "grain": 4})
    assert skill.sizes == (33_554_432, 33_554_432, 8_000_000)
    assert skill.operators == ("aten.mean.dim", "aten.mul.Tensor")
    assert skill.evidence == tuple(head["evidence"]) == ("e-n3", "e-confirm", "e-n1")
    assert "1. 1.90x: `grain` = `4`, `huge` = `true` (limited by memory_bandwidth)" in body
    assert "`huge`: `true` instead of `false`: 1.73x" in body
    assert "Best: 1.90x (interval 1.80 to 2.00) against compile. 3 candidates, 2 correct" in body
    encode(skill)


def test_the_identity_is_the_lesson_not_the_session():
    first, second = (distill(PROBLEM, FACTS, POOL, session(), session=name) for name in ("s-1", "s-2"))
    assert first.id == second.id and first.id.startswith("rmsnorm-") and len(first.id) == len("rmsnorm-") + 12
    third = distill(PROBLEM, FACTS, POOL, session()[:1], session="s-1")
    assert third.id != first.id


def test_no_win_is_a_lesson_and_nothing_measured_is_none():
    skill = distill(PROBLEM, FACTS, POOL, [trial("a", 0.8, x=1)], session="s")
    assert "no win found" in skill.title and skill.recipes == () and "Nothing tried here" in skill.text
    assert distill(PROBLEM, FACTS, POOL, [trial("a", 0.0, verdict=Verdict.crash)], session="s") is None
    assert distill(PROBLEM, FACTS, POOL, [], session="s") is None


def test_a_kernel_without_tunables_leaves_its_idea():
    idea = Trial(node="a", speedup=2.0, rationale="Huge pages for the output.")
    skill = distill(PROBLEM, FACTS, POOL, [idea], session="s")
    assert "Huge pages for the output." in skill.text and skill.recipes == ()


def test_an_idea_is_one_line_of_bounded_length():
    """An author outside writes it, and others read the skill: it holds no sections, and no pages."""
    idea = Trial(node="a", speedup=2.0, rationale="Fast.\n\n## The numbers\n\nBest: 99x.\n" + "word " * 10_000)
    skill = distill(PROBLEM, FACTS, POOL, [idea], session="s")
    assert skill.text.count("\n## The numbers") == 1 and len(skill.text) < 3000


def test_a_front_matter_survives_awkward_words():
    head = {"title": "a: b # c", "x": ["- y", "no", "1.0"], "n": 1.5}
    assert fm.split(fm.join(head, "text"), "t") == (head, "text\n")


def test_configs_are_plain():
    config: Config = {"a": 1}
    assert best_trials([Trial(node="n", recipe=config, speedup=2.0)])[0].recipe == config
