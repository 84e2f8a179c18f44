"""The evaluation harness: three kinds of process, so that nobody judges himself.

The *supervisor* (asyncio, inside the agents' process, no torch) owns clock, seeds and verdict. The *reference* runs
the problem file: it draws inputs from private seeds, holds the oracle and compares. The *candidate* gets inputs and
hands in outputs; it never holds what is expected. Both are forked from a *fork server* that imported torch once.

Supervisor's side: :mod:`.launcher` (the fork server), :mod:`..processes.worker` (one child), :mod:`.verification`,
:mod:`.profiling`.
Children's side: :mod:`.fork_server`, :mod:`.candidate`, :mod:`.reference`, :mod:`.baseline`,
:mod:`.problem_validation`.
Between them: :mod:`.messages` over :mod:`..processes.wire`.
"""
