-- Diagnoses, without their evidence and reasons.
SELECT seq, session, pool, node, at_ns,
    coalesce(b.confirmation, false) AS confirmation,
    b.verdict, b.fitness,
    b.speedup.low                   AS speedup_low,
    b.speedup.median                AS speedup,
    b.speedup.high                  AS speedup_high,
    b.against, b.roofline_fraction, b.bottleneck, b.summary,
    b.ordinary.low                  AS ordinary_low,
    b.ordinary.median               AS ordinary_speedup,
    b.ordinary.high                 AS ordinary_high,
    nullif(b.ordinary_against, '')  AS ordinary_against
FROM (
    SELECT *, json_transform(body, '{
        "verdict": "VARCHAR", "fitness": "DOUBLE", "bottleneck": "VARCHAR", "summary": "VARCHAR", "against": "VARCHAR",
        "speedup": {"low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE"}, "roofline_fraction": "DOUBLE",
        "confirmation": "BOOLEAN", "ordinary": {"low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE"},
        "ordinary_against": "VARCHAR"}') AS b
    FROM events WHERE tag = 'node.diagnosed.v1'
)
