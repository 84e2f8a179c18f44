"""Attacks by an author who has read how calls are timed (docs/judge/timing-cpu.md), and what must become of each."""

from .expected import Guarantee, unseen

WRONG = ("wrong_numbers", "stale_output", "incomplete_output", "not_deterministic", "hidden_work", "lower_precision")
NOT_PERMITTED = unseen("runtime_error", timed=False, says="not permitted")

FREEZING = {
    "writes_into_what_is_compared": unseen("wrong_numbers", "hidden_work", timed=False, by=Guarantee.right),
    "raises_beside_the_comparison": unseen("wrong_numbers", timed=False, by=Guarantee.right),
    "wakes_by_timer": unseen(*WRONG, "timeout", by=Guarantee.stopped),
    "starves_the_stop": unseen(*WRONG, "timeout", by=Guarantee.stopped),
    "answers_before_it_computes": unseen(*WRONG, by=Guarantee.stopped),
    "remaps_its_outputs": unseen(*WRONG, by=Guarantee.stopped),
    "finalizes_later": unseen(*WRONG, by=Guarantee.stopped),
    "collects_later": unseen(*WRONG, by=Guarantee.stopped),
    "computes_on_continue": unseen("correct", *WRONG, by=Guarantee.outside_clock),
    "looks_while_it_is_warmed_up": unseen(*WRONG, by=Guarantee.checked_unseen),
    "blocks_signals": unseen("correct", by=Guarantee.stopped),
    "arms_a_timer": NOT_PERMITTED,
    "signals_on_io": NOT_PERMITTED,
    "handles_page_faults": NOT_PERMITTED,
    "asks_io_uring": NOT_PERMITTED,
    "clones_itself": NOT_PERMITTED,
    "is_traced": NOT_PERMITTED,
    "keeps_a_queue": NOT_PERMITTED,
    "notes_in_file_times": unseen("runtime_error", timed=False, by=Guarantee.walls),
    "shares_memory": NOT_PERMITTED,
    "answers_in_shared_memory": unseen("correct", by=Guarantee.walls),
    "cannot_be_read": unseen("correct", "tampering", by=Guarantee.protocol),
    "pins_itself": unseen("correct"),
    "goes_first": NOT_PERMITTED,
    "slows_the_clock": NOT_PERMITTED,
    "queues_signals": NOT_PERMITTED,
    "limits_its_parent": NOT_PERMITTED,
    "asks_a_daemon": NOT_PERMITTED,
    "more_urgent": NOT_PERMITTED,
}

ANSWERS = {
    "forges_a_huge_shape": unseen("wrong_shape", "tampering", by=Guarantee.protocol),
    "forges_a_wide_stride": unseen("tampering", by=Guarantee.protocol),
    "forges_many_elements": unseen("wrong_shape", "tampering", by=Guarantee.protocol),
    # Its batches take so long that it is not warmed up again, and then it says the truth.
    "forges_many_dimensions": unseen("correct", "wrong_shape", "tampering", by=Guarantee.protocol),
    "forges_addresses": unseen("tampering", says="cannot be read", by=Guarantee.protocol),
    "forges_the_last_form": unseen("wrong_type", by=Guarantee.protocol),
    "forges_fewer_calls": unseen("wrong_type", by=Guarantee.protocol),
    "forges_one_output": unseen(*WRONG, by=Guarantee.protocol),
    "forges_outputs_in_the_inputs": unseen(*WRONG, by=Guarantee.protocol),
    "forges_memory_of_nobody": unseen("tampering", says="cannot be read", by=Guarantee.protocol),
    "answers_too_much": unseen("timeout", by=Guarantee.protocol),
    "answers_much_each_time": unseen("timeout", by=Guarantee.protocol),
    "answers_by_half": unseen("timeout", by=Guarantee.protocol),
    "answers_twice": unseen("tampering", says="out of turn", by=Guarantee.protocol),
    "answers_ahead": unseen(*WRONG, "tampering", by=Guarantee.protocol),
    "answers_deeply": unseen("tampering", says="out of turn", by=Guarantee.protocol),
    "answers_deeply_at_once": unseen("tampering", says="out of turn", by=Guarantee.protocol),
    "answers_nonsense": unseen("tampering", says="out of turn", by=Guarantee.protocol),
    "answers_with_large_numbers": unseen("wrong_shape", "wrong_type", "tampering", by=Guarantee.protocol),
    "spreads_its_outputs": unseen("correct", by=Guarantee.protocol),
    "long_name_of_a_type": unseen("wrong_type", timed=False),
    "says_too_many_outputs": unseen("wrong_type", timed=False, says="more than"),
    "subclass_when_timed": unseen("wrong_type"),
}

WHEN_TIMED = {
    "skips_every_second_when_timed": unseen(*WRONG, by=Guarantee.checked_unseen),
    # One call in a hundred is seen by chance, and left out it pays one in a hundred.
    "skips_one_in_a_hundred_when_timed": unseen("correct", *WRONG, by=Guarantee.checked_unseen),
    "half_precision_when_timed": unseen(*WRONG, by=Guarantee.checked_unseen),
    "writes_over_inputs_when_timed": unseen("correct", *WRONG, by=Guarantee.inputs_kept),
    "ring_of_outputs": unseen("stale_output", timed=False),
    "counts_calls": unseen(*WRONG, by=Guarantee.checked_unseen),
    "counts_what_lives": unseen(*WRONG, by=Guarantee.checked_unseen),
    "tells_the_time": unseen("correct", *WRONG, by=Guarantee.checked_unseen),
    "knows_the_address": unseen(*WRONG, by=Guarantee.checked_unseen),
    "knows_the_strides": unseen(*WRONG, by=Guarantee.checked_unseen),
    "slow_at_first": unseen("correct", by=Guarantee.outside_clock),
    "raises_when_timed": unseen("runtime_error", says="not now", by=Guarantee.limits),
    "exits_when_timed": unseen("crash"),
    "prints_while_timed": unseen("correct"),
    "writes_the_arena": unseen("runtime_error", says="not permitted"),
    "maps_the_arena_again": unseen("correct", by=Guarantee.walls),
    "profiles_the_harness": unseen("correct", "tampering", *WRONG, by=Guarantee.protocol),
    "traces_the_harness": unseen(*WRONG, "wrong_type", by=Guarantee.protocol),
    "hooks_imports": unseen("crash", "tampering", "load_error", "correct", by=Guarantee.intact),
    "changes_the_interpreter": unseen("wrong_type", *WRONG, by=Guarantee.protocol),
}

SMALL = {
    "computes_all_at_once": unseen("correct", by=Guarantee.one_by_one),
    # What its first timing says decides nothing (tests/agents/test_finalists.py).
    "joins_calls_as_no_finalist": unseen("correct", by=Guarantee.no_gain),
    "exits_as_a_finalist": unseen("crash", by=Guarantee.limits),
    "hangs_as_a_finalist": unseen("timeout", by=Guarantee.limits),
    "slow_until_batches_are_sized": unseen("correct", by=Guarantee.one_by_one),
    "puts_off_calls": unseen(*WRONG, by=Guarantee.one_by_one),
    # A thread that is done before all are stopped is seen by nobody, and gains nothing.
    "computes_beside_its_answer": unseen("correct", *WRONG, by=Guarantee.one_by_one),
    "answers_for_later_calls": unseen("tampering", says="out of turn", by=Guarantee.one_by_one),
    # On a busy machine it may take so long that it has batches of one call.
    "shortens_the_turns": unseen("tampering", "correct", by=Guarantee.intact),
    # The judge alone may call it 2x; ordinary processes show what its calls take.
    "takes_its_own_turns": unseen("correct"),
    "keeps_answers_by_content": unseen("correct"),
    "fills_views_last": unseen("correct", by=Guarantee.one_by_one),
    # It has three calls made one by one, and these take longer than those of long batches.
    "skips_after_the_last_look": unseen("correct", *WRONG, by=Guarantee.one_by_one),
    "streams_between_batches": unseen("correct", by=Guarantee.stands_still),
    "watches_the_arena": unseen("correct", by=Guarantee.one_by_one),
    "overlaps_calls": unseen("correct"),
    "replaces_the_loop": unseen("correct", "tampering", "wrong_numbers"),
}

STEPS = {"joins_long_calls": unseen("correct", by=Guarantee.one_by_one)}

SEGMENTS = {"joins_ragged_calls": unseen("correct", by=Guarantee.one_by_one)}

# Not every block of old outputs is spoiled: what was used by untimed calls since is whole again.
TRIANGLE = {
    "leaves_zeros_of_old_outputs": unseen("correct", *WRONG, by=Guarantee.written),
    # What it prepares in untimed calls lasts for a few batches of one process.
    "fills_outputs_ahead": unseen("correct", *WRONG, by=Guarantee.one_by_one),
}

SHARES = {"no_maximum_when_timed": unseen(*WRONG, by=Guarantee.checked_unseen)}

# Batches of a first timing whose outputs nobody may read, since they are large; a finalist's are all read.
LARGE = {
    "works_less_as_no_finalist": unseen(*WRONG, by=Guarantee.checked_unseen),
    # Disturbed, it sees no difference; and it may be timed in so few batches that the median is an honest one.
    "works_less_after_it_was_read": unseen("correct", *WRONG, by=Guarantee.checked_unseen),
    "works_less_from_the_fourth_batch": unseen("correct", *WRONG, by=Guarantee.checked_unseen),
}
