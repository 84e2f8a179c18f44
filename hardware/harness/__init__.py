"""The judge: reference, baselines and candidate in separate processes, so that no process judges itself.

The *supervisor* (asyncio, inside the agents' process, no torch) owns clock, seeds and verdict. The *reference* runs
the problem file: it draws inputs from private seeds, holds the oracle and compares. The *candidate* gets inputs and
hands in outputs; it never holds what is expected. Both are forked from a *fork server* that imported torch once.

The files of this folder are the supervisor's side: :mod:`.launcher` (the fork server), :mod:`.verification`,
:mod:`.profiling`. :mod:`.children` has the programs of the forked processes; :mod:`.messages` is what the two say to
each other. In the order of their imports, each from those before it: :mod:`.messages`, :mod:`.inputs`,
:mod:`.tensors`, :mod:`.calls`, :mod:`.reference`, :mod:`.children`, :mod:`.timing`, then the files here.
"""
