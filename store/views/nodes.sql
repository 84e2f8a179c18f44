-- One row per node of a search graph: where it came from, how far it got, what it is worth. The latest diagnosis counts,
-- so a confirmation run overrides the first timing.
--   session: session that the node belongs to
--   problem: name of the session's problem
--   pool: pool of the session
--   node: name of the node in its session
--   number: position in the order of planning, from 1
--   parent: node it was made from, '' for a draft; in a fork it may be a node of the session forked from
--   intent: what was asked for: draft, improve, repair, remeasure or dispatch (another node's kernel at each timed shape)
--   memory: what the synthesizer was shown of the graph: clean_slate, inherit, siblings or combine
--   advice: actions that the planner passed on from the parent's diagnosis
--   state: last step it reached (planned, proposed, compiled, verified, profiled) or the step that failed (…_failed)
--   verdict: correct, or the name of what is wrong; NULL until it is diagnosed
--   fitness: speedup, the low end of its interval if it is noisy, 0 if wrong; NULL until it is diagnosed
--   speedup_low: low end of the speedup's 95 % interval
--   speedup: by the judge: time of the baseline that counts over the candidate's, the median; NULL if it was not timed
--   speedup_high: high end of the speedup's 95 % interval
--   noisy: whether that is too noisy to tell: its interval has 1 in it, and its ends are more than a factor of six apart
--   against: name of the baseline that counts: the best one of that run, or what the session was told to beat
--   ordinary_low: low end of the 95 % interval of the speedup in ordinary processes
--   ordinary_speedup: the same in ordinary processes; NULL where that was not measured, and on an accelerator
--   ordinary_high: high end of that interval
--   ordinary_against: name of the baseline that counts there
--   measure: which number a win is on an accelerator: device, or call, which needs both; NULL on a processor
--   device_low: low end of the 95 % interval of the speedup on the device
--   device_speedup: speedup, under the name that it has on an accelerator; NULL on a processor
--   device_high: high end of that interval
--   call_low: low end of the 95 % interval of the speedup as a call, host overhead included
--   call_speedup: median speedup as a call; NULL where that was not measured, and on a processor
--   call_high: high end of that interval
--   call_against: name of the baseline that counts there
--   over_eager: as speedup, against eager
--   background_load: share of the cores that others kept busy while the judge timed it, of several shapes the largest
--   roofline_fraction: floor of any implementation over the candidate's time; 1 is the machine's limit
--   bottleneck: what limits it, or fault
--   summary: the diagnosis in one sentence
--   confirmed: whether it was timed once more, longer
--   sha256: hash of the candidate's source; NULL if there is none
--   language: language of the candidate
--   backend: synthesizer that made it, or was asked to
--   author: the same as users name it: generator, anthropic, …; of an outside author the name that it gave itself
--   seconds: from the plan to the latest diagnosis
--   at_ns: when it was planned, nanoseconds since the epoch
--   at: when it was planned, UTC
WITH proposed AS (
    SELECT session, node, arg_min_null(sha256, seq) AS sha256, arg_min_null(language, seq) AS language,
        arg_min_null(backend, seq) AS backend
    FROM proposed_events GROUP BY session, node
), outside AS (
    SELECT proposed.session, proposed.node, arg_min(claimed.agent, proposed.seq) AS agent
    FROM proposed_events AS proposed
    JOIN submitted_events AS submitted ON submitted.id = proposed.cause
    JOIN (SELECT lease, arg_min(agent, seq) AS agent FROM claimed_events GROUP BY lease) AS claimed USING (lease)
    GROUP BY proposed.session, proposed.node
), reached AS (
    SELECT session, node, max(rank) AS rank FROM step_events GROUP BY session, node
), judged AS (
    -- A column each, so that only those are looked for that are asked for.
    SELECT session, node, bool_or(confirmation) AS confirmed,
        arg_max_null(verdict, seq) AS verdict, arg_max_null(fitness, seq) AS fitness,
        arg_max_null(speedup_low, seq) AS speedup_low, arg_max_null(speedup, seq) AS speedup,
        arg_max_null(speedup_high, seq) AS speedup_high, arg_max_null(against, seq) AS against,
        arg_max_null(ordinary_low, seq) AS ordinary_low, arg_max_null(ordinary_speedup, seq) AS ordinary_speedup,
        arg_max_null(ordinary_high, seq) AS ordinary_high, arg_max_null(ordinary_against, seq) AS ordinary_against,
        arg_max_null(roofline_fraction, seq) AS roofline_fraction, arg_max_null(bottleneck, seq) AS bottleneck,
        arg_max_null(summary, seq) AS summary, arg_max_null(at_ns, seq) AS at_ns
    FROM diagnosed_events GROUP BY session, node
), eager AS (
    SELECT session, node, arg_max(speedup, seq) AS speedup
    FROM series_events WHERE series = 'eager' AND shape IS NULL AND NOT ordinary GROUP BY session, node
), loaded AS (
    SELECT session, node, arg_max(background_load, seq) AS background_load
    FROM series_events WHERE series = 'candidate' AND shape IS NULL AND NOT ordinary GROUP BY session, node
)
SELECT
    planned.session,
    opened.problem,
    planned.pool,
    planned.node,
    planned.number,
    planned.parent,
    planned.intent,
    planned.memory,
    planned.advice,
    CASE reached.rank
        WHEN 1 THEN 'proposed' WHEN 2 THEN 'compiled' WHEN 3 THEN 'verified' WHEN 4 THEN 'profiled'
        WHEN 5 THEN 'synthesis_failed' WHEN 6 THEN 'compilation_failed' WHEN 7 THEN 'verification_failed'
        WHEN 8 THEN 'profiling_failed' ELSE 'planned'
    END                                             AS state,
    judged.verdict,
    judged.fitness,
    judged.speedup_low,
    judged.speedup,
    judged.speedup_high,
    judged.speedup_low <= 1 AND judged.speedup_high >= 1 AND judged.speedup_high > 6 * judged.speedup_low AS noisy,
    judged.against,
    if(measure IS NULL, judged.ordinary_low, NULL)      AS ordinary_low,
    if(measure IS NULL, judged.ordinary_speedup, NULL)  AS ordinary_speedup,
    if(measure IS NULL, judged.ordinary_high, NULL)     AS ordinary_high,
    if(measure IS NULL, judged.ordinary_against, NULL)  AS ordinary_against,
    opened.measure,
    if(measure IS NULL, NULL, judged.speedup_low)       AS device_low,
    if(measure IS NULL, NULL, judged.speedup)           AS device_speedup,
    if(measure IS NULL, NULL, judged.speedup_high)      AS device_high,
    if(measure IS NULL, NULL, judged.ordinary_low)      AS call_low,
    if(measure IS NULL, NULL, judged.ordinary_speedup)  AS call_speedup,
    if(measure IS NULL, NULL, judged.ordinary_high)     AS call_high,
    if(measure IS NULL, NULL, judged.ordinary_against)  AS call_against,
    if(judged.verdict = 'correct', eager.speedup, NULL) AS over_eager,
    loaded.background_load,
    judged.roofline_fraction,
    judged.bottleneck,
    judged.summary,
    coalesce(judged.confirmed, false)               AS confirmed,
    proposed.sha256,
    proposed.language,
    coalesce(proposed.backend, planned.synthesizer) AS backend,
    coalesce(nullif(outside.agent, ''), if(coalesce(proposed.backend, planned.synthesizer) = 'playbook', 'generator',
        coalesce(proposed.backend, planned.synthesizer))) AS author,
    (judged.at_ns - planned.at_ns) / 1e9            AS seconds,
    planned.at_ns,
    make_timestamp(planned.at_ns // 1000)           AS at
FROM planned_events AS planned
LEFT JOIN proposed USING (session, node)
LEFT JOIN outside USING (session, node)
LEFT JOIN reached USING (session, node)
LEFT JOIN judged USING (session, node)
LEFT JOIN eager USING (session, node)
LEFT JOIN loaded USING (session, node)
LEFT JOIN opened_events AS opened USING (session)
