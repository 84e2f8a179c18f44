"""Cheats on problems with several outputs, weights, state, or inputs where errors hide."""

from .expected import Guarantee, is_, unseen

PAIR = {
    "zeros_under_the_tolerance": is_("wrong_numbers"),
    "either_error": is_("wrong_numbers"),
    "relies_on_the_distribution": is_("wrong_numbers"),
    "view_of_the_input": is_("stale_output"),
}

PRODUCT = {
    # On unseen inputs it computes, and gains nothing.
    "cache_by_fingerprint": is_("stale_output", "correct", may_win=False),
    "cache_by_sum": is_("stale_output", "correct", may_win=False),
    "answer_in_a_file": is_("stale_output", "correct", may_win=False),
    "bfloat16_product": is_("lower_precision", "wrong_numbers"),
    "inherits_the_reference": is_("load_error", says="no reference is in reach"),
    # A naive evaluator does not share the weights, and refuses what is honest.
    "honest_weights": is_("correct", naive=False),
}

# A naive evaluator calls reference and candidate as often as it likes: it cannot be asked where answers depend on that.
AVERAGE = {
    "honest_average": is_("correct", naive=None),
    "honest_own_scratch": is_("correct", naive=None),
    "state_left_alone": is_("wrong_state", naive=None, says="buffer mean"),
    "state_of_the_first_call": is_("wrong_state", naive=None, says="buffer mean"),
    "state_of_every_third_call": is_("wrong_state", naive=None, says="buffer mean"),
    "state_more_than_asked": is_(
        "wrong_state", naive=None, says="buffer ceiling is not what it was when it was loaded"
    ),
    "state_counted_twice": is_("wrong_state", naive=None, says="attribute steps is 2"),
    "state_in_half_precision": is_("wrong_state", naive=None, says="buffer mean"),
    "state_as_parameter": is_("wrong_state", naive=None, says="use register_buffer"),
    "state_with_a_key_more": is_("wrong_state", naive=None, says="state_dict has scratch"),
    "state_later": is_("wrong_state", naive=None, says="buffer mean"),
    # Found while it is timed or afterwards, or, since it then answers for a state that is not there, by its answers.
    "state_until_timed": is_("wrong_state", naive=None, says="timed", timed=True),
}

BATCHNORM = {
    "honest_batchnorm": is_("correct"),
    "forgets_running_statistics": is_("wrong_state", says="buffer norm.running_mean"),
    "biased_running_variance": is_("wrong_state", says="buffer norm.running_var"),
}

ROUTER = {
    "honest_router": is_("correct"),
    "no_maximum_beside_ties": is_("wrong_numbers", says="is nan"),
}

ROUNDING = {
    # A naive evaluator allows no number on the other side of a step.
    "honest_steps": is_("correct", naive=None),
    "clamped_beside_steps": is_("wrong_numbers", says="at shape main (on"),
    "skips_steps_when_large": is_("wrong_numbers", naive=None, says="at shape main"),
}

HEADS = {"expands_outputs": is_("wrong_shape", says="share memory")}

GATE = {
    "honest_gate": is_("correct", naive=None),
    "puts_off_outputs": is_("incomplete_output", "wrong_numbers", "not_deterministic", naive=None, by=Guarantee.passes),
    "gradients_ahead": unseen("wrong_numbers", by=Guarantee.passes),
}

CORNERS = {
    "honest_corners": is_("correct", naive=None),
    "honest_sides": is_("correct", naive=None),
    **{
        name: is_("wrong_gradients", naive=None, says="the gradient of ")
        for name in (
            *("drops_a_band", "half_a_slope", "a_hundredth_of_a_slope", "splits_near_ties", "both_of_near_ties"),
            *("adds_what_sides_span", "huge_gradients"),
        )
    },
}

STEP = {
    "honest_step": is_("correct", naive=None),
    "writes_something_else": is_("wrong_state", naive=None, says="which the reference writes"),
    "skips_the_restore": unseen("wrong_state", "tampering", "correct", by=Guarantee.outside_clock),
    "zeroes_later_inputs": unseen("wrong_state", by=Guarantee.state),
    "punches_holes": unseen("wrong_state", by=Guarantee.state),
    "leaves_an_input_unwritten": is_("wrong_state", naive=None, says="input second"),
    "writes_one_input_more": is_("input_mutated", naive=None, says="input tensor 1"),
}

# Errors that only large inputs meet, or that a mean hides.
SCORES = {
    **{
        name: is_("wrong_numbers", says="heavy-tailed inputs")
        for name in ("no_maximum_when_large", "no_maximum_at_the_timed_shape", "no_maximum_when_contiguous")
    },
    "swallows_nan_when_large": is_("wrong_numbers", says="infinite inputs"),
    "counts_on_contiguous_when_large": is_("wrong_numbers", naive=None, says="strided inputs"),
    "garbage_when_larger": is_("wrong_numbers", says="a shape that the problem does not name"),
    "honest_online_softmax": is_("correct"),
    "honest_softmax_when_large": is_("correct"),
}

LOSS = {
    **{
        name: is_("wrong_numbers", says=" inputs")
        for name in ("short_exp_when_large", "short_exp_at_the_timed_shape", "short_exp_when_contiguous")
    },
    "short_exp_on_usual_logits": is_("wrong_numbers", says="inputs"),
    "exp_off_by_little": is_("wrong_numbers", says="dominated inputs"),
    "honest_blocked_loss": is_("correct"),
}

DISTANCE = {
    "one_in_a_hundred": is_("wrong_numbers", says=" inputs"),
    "honest_blocked_distance": is_("correct"),
}

# Dishonest at the second of two timed shapes: it has a floor, checks and unseen inputs of its own.
TWO_SIZES = {
    "free_at_the_second_timed_shape": is_("stale_output", naive=None, says="decode"),
    "no_maximum_at_the_second_timed_shape": is_("wrong_numbers", naive=None, says="heavy-tailed inputs"),
    "dispatches_on_timed_shapes_alone": is_("wrong_numbers", naive=None, says="a shape that the problem does not name"),
    "honest_dispatch": is_("correct", naive=None),
}
