-- One row per step that ended for a candidate, synthesis included: who did it, how long it took, why it failed.
--   session: session of the candidate
--   pool: pool of the session
--   node: node of the candidate
--   role: agent that did the step: synthesizer, compiler, verifier or profiler
--   worker: which worker of the role, host.pid.role.n
--   state: proposed, compiled, verified or profiled, or the step that failed (…_failed)
--   failed: whether the step failed
--   confirmation: whether it was for a confirmation run
--   verdict: what a failed verification or timing found
--   seconds: time that the step itself took, seconds; NULL for synthesis
--   cached: whether a compiled artifact was there already
--   isolation: isolation that was in force
--   message: why it failed: the reason, the evidence or the compiler's first message; else ''
--   at_ns: when the step ended, nanoseconds since the epoch
--   at: when the step ended, UTC
SELECT
    session,
    pool,
    node,
    CASE WHEN rank IN (1, 5) THEN 'synthesizer' WHEN rank IN (2, 6) THEN 'compiler'
        WHEN rank IN (3, 7) THEN 'verifier' ELSE 'profiler' END AS role,
    worker,
    state,
    rank > 4                                AS failed,
    confirmation,
    verdict,
    seconds,
    cached,
    isolation,
    message,
    at_ns,
    make_timestamp(at_ns // 1000)           AS at
FROM step_events
