-- Implementations in timing runs, without their samples.
SELECT seq, session, pool, node, at_ns, worker,
    coalesce(b.confirmation, false)           AS confirmation,
    ordinary,                                 -- whether in ordinary processes, else in the interleaved benchmark
    place,                                    -- of the series in the report, from 1
    one.name                                  AS series,
    one.name = timing.best                    AS best,
    timing.median_ms[one.name]                AS median_ms,
    timing.speedup[one.name].low              AS speedup_low,
    timing.speedup[one.name].median           AS speedup,
    timing.speedup[one.name].high             AS speedup_high,
    len(one.samples_ns)                       AS rounds,
    one.calls                                 AS calls,
    (quartiles[3] - quartiles[1]) / nullif(quartiles[2], 0) AS noise,
    b.report.verdict                          AS verdict,
    if(ordinary, NULL, b.report.roofline.floor_ms) AS floor_ms,
    if(one.name = 'candidate' AND NOT ordinary, b.report.roofline.fraction, NULL) AS roofline_fraction,
    if(ordinary, NULL, b.report.roofline.limit) AS roofline_limit,
    if(one.name = 'candidate' AND NOT ordinary, b.report.counters, NULL) AS counters,
    if(ordinary, NULL, b.report.isolation)    AS isolation,
    b.report.seconds                          AS seconds
FROM (
    SELECT *, list_aggregate(one.samples_ns, 'quantile_cont', [0.25, 0.5, 0.75]) AS quartiles
    FROM (
        SELECT *, unnest(timing.series) AS one, generate_subscripts(timing.series, 1) AS place
        FROM (
            SELECT *, run.ordinary AS ordinary, run.timing AS timing
            FROM (
                SELECT *, unnest([{'ordinary': false, 'timing': b.report.timing},
                    {'ordinary': true, 'timing': b.report.ordinary}]) AS run
                FROM (
                    SELECT *, json_transform(body, '{"confirmation": "BOOLEAN", "report": {
                        "verdict": "VARCHAR", "isolation": "VARCHAR", "seconds": "DOUBLE", "counters": "JSON",
                        "roofline": {"floor_ms": "DOUBLE", "fraction": "DOUBLE", "limit": "VARCHAR"},
                        "timing": {"best": "VARCHAR", "median_ms": "MAP(VARCHAR, DOUBLE)",
                            "speedup": "MAP(VARCHAR, STRUCT(low DOUBLE, median DOUBLE, high DOUBLE))",
                            "series": [{"name": "VARCHAR", "samples_ns": ["BIGINT"], "calls": "BIGINT"}]},
                        "ordinary": {"best": "VARCHAR", "median_ms": "MAP(VARCHAR, DOUBLE)",
                            "speedup": "MAP(VARCHAR, STRUCT(low DOUBLE, median DOUBLE, high DOUBLE))",
                            "series": [{"name": "VARCHAR", "samples_ns": ["BIGINT"], "calls": "BIGINT"}]}}}') AS b
                    FROM events WHERE tag IN ('candidate.profiled.v1', 'candidate.profiling_failed.v1')
                )
            )
        )
    )
)
