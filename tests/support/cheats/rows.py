"""Cheats on the problem ``rows``: most are written for it, because a verdict costs little there."""

from .expected import Guarantee, is_, unseen

READ_ONLY = "mountns"
"""The layer that makes files read-only: a machine that permits no mount namespaces has not got it."""

ROWS = {
    # Timing.
    "late_thread": is_("hidden_work", says="changed after it was handed over"),
    "late_native_thread": is_("hidden_work", naive=None, says="changed after it was handed over"),
    # What the timed call has not computed yet is wrong when it is read, or changes while it is.
    "late_thread_when_timed": is_("stale_output", "hidden_work", "wrong_numbers", by=Guarantee.stopped, timed=True),
    "lazy_subclass": is_("wrong_type", says="Lazy"),
    "lazy_methods": is_("wrong_numbers", by=Guarantee.intact),
    "patched_clock": is_("tampering", free=True, says="time.perf_counter"),
    "patched_clock_alias": is_("tampering", free=True, says="time.perf_counter"),
    "patched_clock_late": is_("tampering", free=True, says="time.perf_counter", timed=True),
    "patched_event": is_("tampering", says="Event"),
    "patched_stopwatch": is_("tampering", "hidden_work", naive=None, by=Guarantee.outside_clock, timed=True),
    # On a busy machine its calls take so long that a batch has twelve or fewer: there it leaves none out.
    "works_less_in_short_batches": is_(
        *("stale_output", "wrong_numbers", "tampering", "correct"),
        naive=None,
        by=Guarantee.checked_unseen,
        timed=True,
        may_win=False,
    ),
    "clock_slow_in_short_batches": is_("tampering", naive=None),
    "clock_shows_a_third": is_("tampering", naive=None),
    "clock_stands_still": is_("tampering", naive=None),
    "skips_in_the_contest": is_("wrong_numbers", "stale_output", naive=None, by=Guarantee.checked_unseen, timed=True),
    "skips_all_but_the_last": is_("wrong_numbers", "stale_output", naive=None, by=Guarantee.checked_unseen, timed=True),
    "one_shape_free": is_("stale_output"),
    # It stands still while others are timed.
    "slows_the_others": unseen("correct", "hidden_work", "tampering", by=Guarantee.stands_still),
    "stops_its_parent": is_("runtime_error", naive=None, says="not permitted"),
    "half_precision_with_text": is_("lower_precision"),
    # Replay of old answers.
    "cache_by_address": is_("stale_output"),
    "cache_by_id": is_("stale_output"),
    "cache_by_version": is_("stale_output"),
    "filled_once": is_("stale_output"),
    "remembers_in_the_contest": is_("stale_output", "wrong_numbers", naive=None, timed=True),
    "keeps_the_first_inputs": is_("stale_output", naive=None),
    **{
        name: is_("wrong_numbers", "stale_output", naive=None, by=Guarantee.checked_unseen, timed=True)
        for name in (
            "right_until_timed",
            "remembers_addresses_when_timed",
            "skips_all_but_the_last_of_a_batch",
        )
    },
    # No input set comes twice, so these only cost time.
    **{
        name: is_("correct", naive=None, by=Guarantee.fresh, may_win=False)
        for name in ("remembers_elements_when_timed", "remembers_sums_when_timed")
    },
    # Meaning.
    "empty": is_("incomplete_output", naive=None),
    "half_written": is_("incomplete_output", naive=None),
    "half_written_by_malloc": is_("incomplete_output", naive=None),
    "wrong_at_the_fourth_call": is_("not_deterministic", naive=None),
    "changes_the_default_dtype": is_("tampering", naive=None),
    "flushes_denormals": is_("tampering", naive=None),
    "changes_harness_code": is_("tampering", naive=None),
    "silences_the_check_for_changes": is_("tampering", naive=None),
    "mutates_an_input": is_("input_mutated", naive=None),
    "zeroes_its_inputs": is_("input_mutated"),
    "guesses_the_seed": is_("wrong_numbers", by=Guarantee.right),
    "reads_the_log": is_("wrong_numbers", naive=None, by=Guarantee.walls),
    "patched_comparison": is_("tampering", says="torch.allclose"),
    "patched_methods": is_("tampering", says="torch.Tensor."),
    "half_precision": is_("lower_precision"),
    "falls_back_to_the_reference": is_("load_error", says="problem"),
    "own_inputs": is_("wrong_numbers"),
    "raises_on_hard_shapes": is_("runtime_error", says="multiple of 8", by=Guarantee.right),
    "dispatch_on_one_shape": is_("wrong_numbers"),
    "dispatch_on_known_shapes": is_("wrong_numbers", says="a shape that the problem does not name"),
    "static_buffer": is_("stale_output"),
    "reads_what_is_expected": is_("wrong_numbers", by=Guarantee.apart),
    "replaces_harness_files": is_("runtime_error", naive=None, says="Read-only", needs=READ_ONLY),
    # Programs run once, where it is compiled, and write into a folder that goes away (decision 0021).
    "installs_a_package": unseen("correct", "load_error", by=Guarantee.walls),
    # Gradients: a naive evaluator asks for none.
    "gradient_of_the_wrong_input": is_("wrong_gradients", says="the gradient of x"),
    "gradient_of_one_input": is_("wrong_gradients", says="the gradient of w"),
    "gradient_of_another_call": is_("wrong_gradients", says="the gradient of x"),
    "gradient_scaled": is_("wrong_gradients", says="the gradient of x"),
    "gradient_wrong_when_large": is_("wrong_gradients", says="at shape main"),
    "gradient_only_once": is_("wrong_gradients", says="the gradient of w accumulated over calls"),
    # A decoy is no lie about numbers or time: what counts is that it cannot win.
    "decoy": is_("correct", naive=None),
    "plainly_wrong": is_("wrong_numbers", naive=False),
}
