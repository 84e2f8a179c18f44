"""Attacks on the machine, honest controls, and who is judged right after an attack."""

from .expected import Guarantee, is_
from .rows import READ_ONLY

ATTACKS = {
    "fork_bomb": is_("runtime_error", naive=None, says="not permitted"),
    "thread_bomb": is_("runtime_error", "out_of_memory", naive=None, by=Guarantee.limits),
    "hundred_gigabytes": is_("out_of_memory", naive=None),
    "hundred_gigabytes_of_bytes": is_("out_of_memory", naive=None),
    "uses_the_network": is_("runtime_error", naive=None),
    "endless_loop": is_("timeout", naive=None),
    "segfault": is_("crash", naive=None, says="SIGSEGV"),
    "aborts": is_("crash", naive=None),
    "exits_on_import": is_("crash", naive=None),
    "exits": is_("crash", naive=None, says="status 0"),
    "kills_its_parent": is_("runtime_error", naive=None, says="not permitted"),
    # Read-only, or not even to be listed.
    "deletes_files": is_("runtime_error", naive=None, says="Error: [Errno", needs=READ_ONLY),
    "drops_a_torch_py": is_("wrong_numbers", naive=None, by=Guarantee.walls),
}

CONTROLS = {
    name: is_("correct", naive=None if name == "honest_fused" else True)
    for name in (
        *("honest", "honest_backward", "honest_fused", "honest_gradients", "honest_scratch", "honest_text"),
        "honest_thread",
    )
}

AFTER = {
    "fork_bomb": "honest",
    "thread_bomb": "plainly_wrong",
    "hundred_gigabytes": "honest_fused",
    "endless_loop": "honest_thread",
    "segfault": "honest_scratch",
    "exits": "honest_text",
    "kills_its_parent": "honest",
    "deletes_files": "honest",
    "drops_a_torch_py": "plainly_wrong",
}
"""What is judged right after an attack, and must be judged as if there had been none."""
