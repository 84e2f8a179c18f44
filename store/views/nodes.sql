-- One row per node of a search graph: where it came from, how far it got, what it is worth.
-- The latest diagnosis counts, so a confirmation run overrides the first timing.
WITH planned AS (
    SELECT session, pool, node, at_ns, json_transform(body, '{
        "parent": "VARCHAR", "intent": "VARCHAR", "memory": "VARCHAR", "number": "BIGINT", "synthesizer": "VARCHAR"}') AS b
    FROM events WHERE tag = 'node.planned.v1'
), proposed AS (
    SELECT session, node, json_transform(body, '{"sha256": "VARCHAR", "language": "VARCHAR", "backend": "VARCHAR"}') AS b
    FROM events WHERE tag = 'candidate.proposed.v1'
    QUALIFY row_number() OVER (PARTITION BY session, node ORDER BY seq) = 1
), reached AS (
    SELECT session, node, arg_max(state, rank) AS state
    FROM (
        SELECT session, node, unnest(CASE tag
            WHEN 'candidate.proposed.v1' THEN [{'rank': 1, 'state': 'proposed'}]
            WHEN 'candidate.compiled.v1' THEN [{'rank': 2, 'state': 'compiled'}]
            WHEN 'candidate.verified.v1' THEN [{'rank': 3, 'state': 'verified'}]
            WHEN 'candidate.profiled.v1' THEN [{'rank': 4, 'state': 'profiled'}]
            WHEN 'candidate.synthesis_failed.v1' THEN [{'rank': 5, 'state': 'synthesis_failed'}]
            WHEN 'candidate.compilation_failed.v1' THEN [{'rank': 5, 'state': 'compilation_failed'}]
            WHEN 'candidate.verification_failed.v1' THEN [{'rank': 5, 'state': 'verification_failed'}]
            WHEN 'candidate.profiling_failed.v1' THEN [{'rank': 5, 'state': 'profiling_failed'}]
            END, recursive := true)
        FROM events WHERE tag LIKE 'candidate.%'
    ) GROUP BY session, node
), judged AS (
    SELECT *, bool_or(confirmation) OVER (PARTITION BY session, node) AS confirmed FROM diagnoses
    QUALIFY row_number() OVER (PARTITION BY session, node ORDER BY seq DESC) = 1
)
SELECT
    planned.session,
    planned.pool,
    planned.node,
    planned.b.number                            AS number,      -- from 1, in the order of planning
    planned.b.parent                            AS parent,      -- '' for a draft
    planned.b.intent                            AS intent,      -- draft, improve, repair
    planned.b.memory                            AS memory,
    coalesce(reached.state, 'planned')          AS state,       -- the last step it reached, or the step that failed
    judged.verdict,                                             -- NULL until it is diagnosed
    judged.fitness,                                             -- speedup, 0 if wrong
    judged.speedup_low,
    judged.speedup,
    judged.speedup_high,
    judged.against,
    judged.roofline_fraction,
    judged.bottleneck,
    judged.summary,
    coalesce(judged.confirmed, false)           AS confirmed,   -- timed once more, longer
    proposed.b.sha256                           AS sha256,      -- of the source
    proposed.b.language                         AS language,
    coalesce(proposed.b.backend, planned.b.synthesizer) AS backend,
    (judged.at_ns - planned.at_ns) / 1e9        AS seconds,     -- from plan to latest diagnosis
    planned.at_ns,
    make_timestamp(planned.at_ns // 1000)       AS at           -- UTC
FROM planned
LEFT JOIN proposed USING (session, node)
LEFT JOIN reached USING (session, node)
LEFT JOIN judged USING (session, node)
