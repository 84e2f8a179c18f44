-- One row per diagnosis: what a node is worth, why, and what to try next.
--   event: id of the event
--   seq: position in the log; the latest diagnosis of a node counts
--   session: session of the node
--   pool: pool of the session
--   node: node that it speaks of
--   confirmation: whether it speaks of a confirmation run
--   verdict: correct, or the name of what is wrong
--   fitness: speedup, the low end of its interval if it is noisy, 0 if wrong
--   speedup_low: low end of the speedup's 95 % interval
--   speedup: by the judge, as in nodes; NULL if it was not timed
--   speedup_high: high end of the speedup's 95 % interval
--   against: name of the baseline that counts: the best one, or what the session was told to beat
--   ordinary_low: low end of the 95 % interval of the speedup in ordinary processes
--   ordinary_speedup: the same in ordinary processes; NULL where that was not measured, and on an accelerator
--   ordinary_high: high end of that interval
--   ordinary_against: name of the baseline that counts there
--   call_low: low end of the 95 % interval of the speedup as a call, host overhead included
--   call_speedup: median of it; NULL where that was not measured, and on a processor
--   call_high: high end of that interval
--   call_against: name of the baseline that counts there
--   roofline_fraction: floor over the candidate's time; 1 is the machine's limit
--   bottleneck: what limits it, or fault
--   summary: one sentence
--   evidence: what the diagnosis rests on: name, value, meaning
--   advice: what to try: action, reason, weight
--   at_ns: when it was diagnosed, nanoseconds since the epoch
--   at: when it was diagnosed, UTC
SELECT
    events.id                               AS event,
    diagnosed.seq,
    diagnosed.session,
    diagnosed.pool,
    diagnosed.node,
    diagnosed.confirmation,
    diagnosed.verdict,
    diagnosed.fitness,
    diagnosed.speedup_low,
    diagnosed.speedup,
    diagnosed.speedup_high,
    diagnosed.against,
    if(measure IS NULL, diagnosed.ordinary_low, NULL)      AS ordinary_low,
    if(measure IS NULL, diagnosed.ordinary_speedup, NULL)  AS ordinary_speedup,
    if(measure IS NULL, diagnosed.ordinary_high, NULL)     AS ordinary_high,
    if(measure IS NULL, diagnosed.ordinary_against, NULL)  AS ordinary_against,
    if(measure IS NULL, NULL, diagnosed.ordinary_low)      AS call_low,
    if(measure IS NULL, NULL, diagnosed.ordinary_speedup)  AS call_speedup,
    if(measure IS NULL, NULL, diagnosed.ordinary_high)     AS call_high,
    if(measure IS NULL, NULL, diagnosed.ordinary_against)  AS call_against,
    diagnosed.roofline_fraction,
    diagnosed.bottleneck,
    diagnosed.summary,
    coalesce(json_transform(events.body->'$.evidence', '[{"name": "VARCHAR", "value": "VARCHAR", "meaning": "VARCHAR"}]'),
        []) AS evidence,
    coalesce(json_transform(events.body->'$.advice', '[{"action": "VARCHAR", "reason": "VARCHAR", "weight": "DOUBLE"}]'),
        []) AS advice,
    diagnosed.at_ns,
    make_timestamp(diagnosed.at_ns // 1000) AS at
FROM diagnosed_events AS diagnosed
JOIN events ON events.seq = diagnosed.seq AND events.tag = 'node.diagnosed.v1'
LEFT JOIN opened_events AS opened ON opened.session = diagnosed.session
