"""What newer sessions do otherwise than older ones, which must go on to replay as they were."""

import msgspec


class SessionRules(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A field for each change of what is decided on the same events. Its default is what was done before: an event of
    an older session does not have the field."""

    failures_alike: int = 0
    """So many syntheses fail alike in a row when it stops. Older sessions (0) went on, and counted these as nodes."""
    hopeless_below: float = 0.0
    """A correct candidate whose interval ends below this speedup is not timed again in the end; and a search
    out of minutes confirms its best without waiting for what is under way. Older (0) timed all again, and waited."""
    cautious: bool = False
    """Whether a speedup that is too noisy (:attr:`.Interval.is_noise`) counts as its interval's low end, and diagnoses
    say that it is, and name limits in words; counts of more cores than there are count as none."""
    heeds_files: bool = False
    """Whether diagnoses and answers heed the file at hand: page faults of every new output call for no advice, look-ups
    are advised where the problem has some, a file without a config is another source beside its parent, and one whose
    time is too noisy to tell may be handed in again. Older sessions did none of it."""
    awaits_hand_ins: bool = False
    """Whether it closes only when no outside author holds a task and every file that was handed in is judged, unless
    its time is over or it is interrupted; tasks of nobody are withdrawn once its aim is reached. Where outside authors
    have a share, nodes of others are no sign of a stall. Older sessions closed at once, and counted all."""
    closer_diagnoses: bool = False
    """Whether a share of the roofline above 1 ends no search and calls for no advice, since the floor counts more than
    a kernel must do; nor do cores that a candidate left to others who were at work. Advice on wrong gradients says what
    to do; a sentence with two speedups names both baselines where they differ, and the closing one says why. Skills
    read no effect from a speedup that is too noisy, and count no node without a candidate."""
    trusts_finalists: bool = False
    """Whether a finalist's timing alone makes a win and reaches an aim (target, floor), the next best takes the place
    of a refuted one, one undecided is timed again before others, and texts name options and what was timed once."""
    awaits_verdicts: bool = False
    """Whether a search of few candidates improves none before its drafts are judged, the last ones deepen the best, and
    one that is out of minutes waits for what is under way until it has a candidate that may win."""
    compares_late: bool = False
    """Whether its best is timed with a baseline that joined since, where no candidate has hope of a win beside that."""
    passes_over_slower: bool = False
    """Whether an untimed finalist is its best before one that is surely slower in ordinary processes."""
    reads_device_time: bool = False
    """Whether gaps between the launches of a replayed call are what the device's time has beside the kernels', not the
    host's under a profiler; findings name the time of each kernel; and launches listed for other sizes count for none.
    """
    asks_by_problem: bool = False
    """Whether look-ups for prompts, drafts' too, have the problem's name and operators as words."""
    names_one_limit: bool = False
    """Whether a model's bottleneck replaces that of the rules in the summary as well."""
    opens_tasks: bool = False
    """Whether outside authors, who share a session or have it alone, get the next task with every verdict, whatever the
    budget is, and their improvements start from the best kernel, never from a runner-up."""
    heeds_authors: bool = False
    """Whether it is an event that an author gets no more nodes, and prompts name the baseline that the session counts
    against."""
    tells_bandwidths: bool = False
    """Whether prompts for a processor have its measured bandwidth by working set, as those for accelerators do."""
    tells_contract: bool = False
    """Whether prompts say what briefs of outside authors do of a problem: its timed shapes with their weights, error,
    gradients, state and ties. Parts of a prompt that are always there are cut to the room then, and a problem file that
    is too long is refused. Older sessions said that the first shape is timed, and cut no such part."""
    grows_with_context: bool = False
    """Whether a problem that is longer than 40,000 tokens of a prompt gets up to 120,000 where the model's context is
    known to have room. Older sessions had one number for every model."""
    structures_answers: bool = False
    """Whether roles ask their models for an answer that follows a JSON schema, and an accelerator's analyst is offered
    no advice on page faults. Older sessions asked in words alone, and offered all."""
    heeds_interrupts: bool = False
    """Whether an interrupt is the reason of the close also while finalists are confirmed. In older sessions it was what
    they were confirmed for."""
    names_worst_shapes: bool = False
    """Whether sentences on the worst of several shapes say which of two numbers it is the worst by."""
    explains_losses: bool = False
    """Whether the last sentence without a win names the number that decided, what it missed, and what may help."""
    names_roofline: bool = False
    """Whether that sentence says so where the best candidate is near the roofline, instead of more candidates, and
    leaves out why a loser was not timed as a call."""
    forgives_withdrawn: bool = False
    """Whether tasks that are taken back because the session ends count as no failures of the outside authors."""
    weighs_lookups: bool = False
    """Whether a search or gather of few elements limits nothing, beside all that is read."""
    trial_nodes: int = 0
    """So many nodes at most are under way until one has a candidate: of an author that costs money. 0: no bound."""
