-- One row per diagnosis: what a node is worth, why, and what to try next.
WITH diagnosed AS (
    SELECT *, json_transform(body, '{
        "verdict": "VARCHAR", "fitness": "DOUBLE", "bottleneck": "VARCHAR", "summary": "VARCHAR", "against": "VARCHAR",
        "speedup": {"low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE"}, "roofline_fraction": "DOUBLE",
        "evidence": [{"name": "VARCHAR", "value": "VARCHAR", "meaning": "VARCHAR"}],
        "advice": [{"action": "VARCHAR", "reason": "VARCHAR", "weight": "DOUBLE"}],
        "confirmation": "BOOLEAN"}') AS b
    FROM events WHERE tag = 'node.diagnosed.v1'
)
SELECT
    id                                AS event,
    seq,                                                    -- position in the log: the latest counts
    session,
    pool,
    node,
    coalesce(b.confirmation, false)   AS confirmation,      -- whether it speaks of a confirmation run
    b.verdict                         AS verdict,
    b.fitness                         AS fitness,           -- speedup, 0 if wrong
    b.speedup.low                     AS speedup_low,
    b.speedup.median                  AS speedup,
    b.speedup.high                    AS speedup_high,
    b.against                         AS against,           -- the best baseline's name
    b.roofline_fraction               AS roofline_fraction,
    b.bottleneck                      AS bottleneck,
    b.summary                         AS summary,
    coalesce(b.evidence, [])          AS evidence,
    coalesce(b.advice, [])            AS advice,
    at_ns,
    make_timestamp(at_ns // 1000)     AS at                 -- UTC
FROM diagnosed
