-- One row per session: what was asked, how it stands, what came out. While it is open, its counts are those so far.
--   session: id of the session
--   problem: name of the problem
--   pool: hardware pool
--   kind: search, fork (of another session) or evaluation (of a file that somebody handed in)
--   status: open or closed
--   reason: why it ended: budget, target, stall, floor, minutes, interrupted, exhausted, user (an outside author finished it), idle, nothing_to_try, reference_died or failed; NULL while it is open
--   win: whether the best candidate's confirmed interval lies above 1: on a processor in ordinary processes as well, on an accelerator by measure
--   speedup_low: low end of the best candidate's 95 % interval
--   speedup: of the best candidate, by the judge, as in nodes; NULL if there is none
--   speedup_high: high end of that interval
--   against: name of the baseline that counts for it
--   win_against: what a win is measured against: best (of all baselines), compile or eager
--   ordinary_low: low end of the 95 % interval of the best candidate's speedup in ordinary processes
--   ordinary_speedup: the same in ordinary processes; NULL where that was not measured, and on an accelerator
--   ordinary_high: high end of that interval
--   ordinary_against: name of the baseline that counts there
--   measure: which number a win is on an accelerator: device, or call, which needs both; NULL on a processor
--   device_low: low end of the 95 % interval of the best candidate's speedup on the device
--   device_speedup: speedup, under the name that it has on an accelerator; NULL on a processor
--   device_high: high end of that interval
--   call_low: low end of the 95 % interval of the best candidate's speedup as a call, host overhead included
--   call_speedup: median of it; NULL where that was not measured, and on a processor
--   call_high: high end of that interval
--   call_against: name of the baseline that counts there
--   over_eager: as speedup, against eager
--   best: node of the best candidate
--   candidates: files that were made or handed in; of a closed session those that were judged (older versions: nodes planned)
--   correct: of them, verified and timed
--   wins: of them, interval above 1
--   budget: candidates to spend
--   minutes: wall-clock budget; NULL if there was none
--   target: speedup at which it may stop; NULL if there was none
--   seed: seed of the planner's random generator
--   policy: planner's policy
--   synthesizer: backend that plans go to
--   model: model of a language-model backend, else ''
--   language: language candidates are written in
--   device: readable name of the processor or accelerator
--   platform: platform of the pool
--   problem_sha256: hash of the problem file
--   operators: ATen operators of the problem
--   dtype: precision to match
--   origin_session: session it was forked from; NULL if it was not
--   origin_node: node it was forked at
--   seeds: sessions whose kernels seeded it
--   skills: ids of the skills it was given
--   version: version of kernelswarm that opened it
--   detail: outcome in one sentence
--   seconds: until its end, or its latest event
--   at_ns: when it was opened, nanoseconds since the epoch
--   at: when it was opened, UTC
--   noisy: whether its speedup is too noisy to tell, as in nodes
WITH closed AS (
    FROM closed_events QUALIFY row_number() OVER (PARTITION BY session ORDER BY seq) = 1
), running AS (
    SELECT session FROM opened_events WHERE session NOT IN (SELECT session FROM closed_events)
), proposed AS (
    -- Not plans: a session with outside authors has tasks that nobody has answered yet.
    SELECT session, count(DISTINCT node) AS candidates FROM proposed_events SEMI JOIN running USING (session)
    GROUP BY session
), judged AS (
    FROM diagnosed_events SEMI JOIN running USING (session)
    QUALIFY row_number() OVER (PARTITION BY session, node ORDER BY seq DESC) = 1
), so_far AS (
    SELECT session, count(*) FILTER (verdict = 'correct') AS correct, count(*) FILTER (speedup_low > 1) AS wins,
        arg_max({'node': node, 'low': speedup_low, 'median': speedup, 'high': speedup_high, 'against': against}, fitness) AS top
    FROM judged GROUP BY session
), eager AS (
    SELECT session, node, arg_max(speedup, seq) AS speedup
    FROM series_events WHERE series = 'eager' AND shape IS NULL AND NOT ordinary GROUP BY session, node
), latest AS (
    SELECT session, max(at_ns) AS at_ns FROM events SEMI JOIN running USING (session) GROUP BY session
)
SELECT *, speedup_low <= 1 AND speedup_high >= 1 AND speedup_high > 6 * speedup_low AS noisy FROM (
SELECT
    opened.session,
    opened.problem,
    opened.pool,
    CASE WHEN opened.origin_session IS NOT NULL THEN 'fork'
        WHEN opened.synthesizer = 'given' THEN 'evaluation' ELSE 'search' END AS kind,
    if(closed.session IS NULL, 'open', 'closed')                            AS status,
    closed.reason,
    coalesce(closed.win, false)                                             AS win,
    coalesce(closed.judged_low, closed.speedup_low, top.low)                AS speedup_low,
    coalesce(closed.judged_speedup, closed.speedup, top.median)             AS speedup,
    coalesce(closed.judged_high, closed.speedup_high, top.high)             AS speedup_high,
    coalesce(nullif(closed.judged_against, ''), closed.against, top.against) AS against,
    opened.win_against,
    if(closed.ordinary AND measure IS NULL, closed.speedup_low, NULL)       AS ordinary_low,
    if(closed.ordinary AND measure IS NULL, closed.speedup, NULL)           AS ordinary_speedup,
    if(closed.ordinary AND measure IS NULL, closed.speedup_high, NULL)      AS ordinary_high,
    if(closed.ordinary AND measure IS NULL, closed.against, NULL)           AS ordinary_against,
    opened.measure,
    if(measure IS NULL, NULL, coalesce(closed.judged_low, closed.speedup_low, top.low))       AS device_low,
    if(measure IS NULL, NULL, coalesce(closed.judged_speedup, closed.speedup, top.median))    AS device_speedup,
    if(measure IS NULL, NULL, coalesce(closed.judged_high, closed.speedup_high, top.high))    AS device_high,
    closed.call_low,
    closed.call_speedup,
    closed.call_high,
    nullif(closed.call_against, '')                                         AS call_against,
    eager.speedup                                                           AS over_eager,
    if(closed.session IS NULL, top.node, closed.best)                       AS best,
    coalesce(closed.candidates, proposed.candidates, 0)                     AS candidates,
    coalesce(closed.correct, so_far.correct, 0)                             AS correct,
    coalesce(closed.wins, so_far.wins, 0)                                   AS wins,
    opened.budget,
    opened.minutes,
    opened.target,
    opened.seed,
    opened.policy,
    opened.synthesizer,
    opened.model,
    opened.language,
    opened.device,
    opened.platform,
    opened.problem_sha256,
    opened.operators,
    opened.dtype,
    opened.origin_session,
    opened.origin_node,
    opened.seeds,
    opened.skills,
    opened.version,
    closed.detail,
    (coalesce(closed.at_ns, latest.at_ns) - opened.at_ns) / 1e9             AS seconds,
    opened.at_ns,
    make_timestamp(opened.at_ns // 1000)                                    AS at
FROM opened_events AS opened
LEFT JOIN closed USING (session)
LEFT JOIN proposed USING (session)
LEFT JOIN so_far USING (session)
LEFT JOIN latest USING (session)
LEFT JOIN eager ON eager.session = opened.session AND eager.node = if(closed.session IS NULL, top.node, closed.best)
)
