"""Cheats where a GPU is: kernels of ``cuda/``, and those of ``cpu/`` that are asked about a second time there."""

from .expected import is_

ROWS_GPU = {
    # Nobody waits for it, so it also reads inputs after its call.
    "other_stream": is_("stale_output", "hidden_work", "tampering", "wrong_numbers"),
    "hides_in_the_flush": is_("wrong_numbers", says="must wait for the current one"),
    "computes_ahead": is_("stale_output", "wrong_numbers"),
    "computes_while_untimed": is_("stale_output", "wrong_numbers"),
    "graph_of_old_inputs": is_("stale_output", "wrong_numbers"),
    # It gains nothing where the flush reaches it, too: it is what it leaves behind that is not its own.
    "persisting_cache": is_("tampering", says="set aside to persist"),
    "lazy_subclass": is_("wrong_type"),
    "patched_event": is_("tampering", says="Event"),
    "cache_by_address": is_("stale_output"),
    "filled_once": is_("stale_output"),
    # What is recorded are launches: its Python decides nothing any more.
    "remembers_in_the_contest": is_("stale_output", "correct", may_win=False),
    "skips_in_the_contest": is_("wrong_numbers", "stale_output", "correct", may_win=False),
    "static_buffer": is_("stale_output"),
    # Where a speedup is capped outputs are overwritten before each pass: there it computes as much as others.
    "leaves_known_answers": is_("correct", "stale_output", "wrong_numbers", like="honest_triton"),
    "empty": is_("incomplete_output", "wrong_numbers"),
    "half_written": is_("incomplete_output"),
    "zeroes_its_inputs": is_("input_mutated"),
    "half_precision": is_("lower_precision"),
    "raises_on_hard_shapes": is_("runtime_error", says="multiple of 8"),
    "segfault": is_("crash"),
    "plainly_wrong": is_("wrong_numbers"),
    "honest": is_("correct"),
    "honest_scratch": is_("correct"),
    "honest_stream": is_("correct"),
    "honest_triton": is_("correct"),
}

SMALL_GPU = {
    "joins_recorded_calls": is_("wrong_numbers"),
    "joins_counted_calls": is_("correct", may_win=False),
    "plainly_wrong": is_("wrong_numbers"),
    "honest": is_("correct"),
}

MIDDLE_GPU = {
    "honest_triton": is_("correct"),
    # Where a speedup is capped outputs are overwritten before each pass: there it computes as much as others.
    "leaves_known_answers": is_("correct", "stale_output", "wrong_numbers", like="honest_triton"),
    "honest": is_("correct"),
}

PRODUCT_GPU = {"tf32_product": is_("lower_precision")}
