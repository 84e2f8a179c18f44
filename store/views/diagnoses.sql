-- One row per diagnosis: what a node is worth, why, and what to try next.
--   event: id of the event
--   seq: position in the log; the latest diagnosis of a node counts
--   session: session of the node
--   pool: pool of the session
--   node: node that it speaks of
--   confirmation: whether it speaks of a confirmation run
--   verdict: correct, or the name of what is wrong
--   fitness: median speedup by the judge against the baseline that counts, 0 if wrong
--   speedup_low: low end of the speedup's 95 % interval
--   speedup: median speedup by the judge; NULL if it was not timed
--   speedup_high: high end of the speedup's 95 % interval
--   against: name of the baseline that counts: the best one, or what the session was told to beat
--   ordinary_low: low end of the 95 % interval of the speedup in ordinary processes
--   ordinary_speedup: median speedup in ordinary processes; NULL where that was not measured; on an accelerator that of the call
--   ordinary_high: high end of that interval
--   ordinary_against: name of the baseline that counts there
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
    diagnosed.ordinary_low,
    diagnosed.ordinary_speedup,
    diagnosed.ordinary_high,
    diagnosed.ordinary_against,
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
