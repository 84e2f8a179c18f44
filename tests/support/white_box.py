"""Attacks of somebody who has read how calls are timed from outside (docs/judge.md), and what must become of each."""

from expected import unseen

WRONG = ("wrong_numbers", "stale_output", "incomplete_output", "not_deterministic", "hidden_work", "lower_precision")
NOT_PERMITTED = unseen("runtime_error", says="not permitted")

FREEZING = {
    "wakes_by_timer": unseen(*WRONG, "timeout"),
    "starves_the_stop": unseen(*WRONG, "timeout"),
    "answers_before_it_computes": unseen(*WRONG),
    "remaps_its_outputs": unseen(*WRONG),
    "finalizes_later": unseen(*WRONG),
    "collects_later": unseen(*WRONG),
    "computes_on_continue": unseen("correct", *WRONG),
    "looks_while_it_is_warmed_up": unseen(*WRONG),
    "blocks_signals": unseen("correct"),
    "arms_a_timer": NOT_PERMITTED,
    "signals_on_io": NOT_PERMITTED,
    "handles_page_faults": NOT_PERMITTED,
    "asks_io_uring": NOT_PERMITTED,
    "clones_itself": NOT_PERMITTED,
    "is_traced": NOT_PERMITTED,
    "keeps_a_queue": NOT_PERMITTED,
    "shares_memory": NOT_PERMITTED,
    "answers_in_shared_memory": unseen("correct"),
    "cannot_be_read": unseen("correct", "tampering"),
    "pins_itself": unseen("correct"),
    "goes_first": NOT_PERMITTED,
    "more_urgent": NOT_PERMITTED,
}

ANSWERS = {
    "forges_a_huge_shape": unseen("wrong_shape", "tampering"),
    "forges_a_wide_stride": unseen("tampering"),
    "forges_many_elements": unseen("wrong_shape", "tampering"),
    # Its batches take so long that it is not warmed up again, and then it says the truth.
    "forges_many_dimensions": unseen("correct", "wrong_shape", "tampering"),
    "forges_addresses": unseen("tampering", says="cannot be read"),
    "forges_the_last_form": unseen("wrong_type"),
    "forges_fewer_calls": unseen("wrong_type"),
    "forges_one_output": unseen(*WRONG),
    "forges_outputs_in_the_inputs": unseen(*WRONG),
    "forges_memory_of_nobody": unseen("tampering", says="cannot be read"),
    "answers_too_much": unseen("timeout"),
    "answers_by_half": unseen("timeout"),
    "answers_twice": unseen("tampering", says="out of turn"),
    "answers_ahead": unseen(*WRONG, "tampering"),
    "answers_deeply": unseen("tampering", says="out of turn"),
    "answers_deeply_at_once": unseen("tampering", says="out of turn"),
    "answers_nonsense": unseen("tampering", says="out of turn"),
    "answers_with_large_numbers": unseen("wrong_shape", "wrong_type", "tampering"),
    "long_name_of_a_type": unseen("wrong_type"),
    "says_too_many_outputs": unseen("wrong_type"),
    "subclass_when_timed": unseen("wrong_type"),
}

WHEN_TIMED = {
    "skips_every_second_when_timed": unseen(*WRONG),
    # One call in a hundred is seen by chance, and left out it pays one in a hundred.
    "skips_one_in_a_hundred_when_timed": unseen("correct", *WRONG),
    "half_precision_when_timed": unseen(*WRONG),
    "writes_over_inputs_when_timed": unseen("correct", *WRONG),
    "ring_of_outputs": unseen("stale_output"),
    "counts_calls": unseen(*WRONG),
    "counts_what_lives": unseen(*WRONG),
    "tells_the_time": unseen("correct", *WRONG),
    "knows_the_address": unseen(*WRONG),
    "knows_the_strides": unseen(*WRONG),
    "slow_at_first": unseen("correct"),
    "raises_when_timed": unseen("runtime_error", says="not now"),
    "exits_when_timed": unseen("crash"),
    "prints_while_timed": unseen("correct"),
    "writes_the_arena": unseen("runtime_error", says="not permitted"),
    "maps_the_arena_again": unseen("correct"),
    "profiles_the_harness": unseen("correct", "tampering", *WRONG),
    "traces_the_harness": unseen(*WRONG, "wrong_type"),
    "hooks_imports": unseen("crash", "tampering", "load_error", "correct"),
    "changes_the_interpreter": unseen("wrong_type", *WRONG),
}

SMALL = {
    "computes_all_at_once": unseen("correct"),
    "overlaps_calls": unseen("correct"),
    "replaces_the_loop": unseen("correct"),
}

SHARES = {"no_maximum_when_timed": unseen(*WRONG)}
