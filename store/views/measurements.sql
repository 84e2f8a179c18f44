-- One row per implementation in a timing run: the candidate and every baseline, with the raw samples.
WITH profiled AS (
    SELECT *, json_transform(body, '{"confirmation": "BOOLEAN", "report": {
        "verdict": "VARCHAR", "isolation": "VARCHAR", "seconds": "DOUBLE", "counters": "JSON",
        "roofline": {"floor_ms": "DOUBLE", "fraction": "DOUBLE", "limit": "VARCHAR"},
        "timing": {"best": "VARCHAR", "median_ms": "MAP(VARCHAR, DOUBLE)",
            "speedup": "MAP(VARCHAR, STRUCT(low DOUBLE, median DOUBLE, high DOUBLE))",
            "series": [{"name": "VARCHAR", "samples_ns": ["BIGINT"], "calls": "BIGINT"}]}}}') AS b
    FROM events WHERE tag IN ('candidate.profiled.v1', 'candidate.profiling_failed.v1')
), series AS (
    SELECT *, b.report AS report, b.report.timing AS timing, unnest(b.report.timing.series) AS one FROM profiled
)
SELECT
    id                                        AS event,
    session,
    pool,
    node,
    coalesce(b.confirmation, false)           AS confirmation,  -- the longer run of a finalist
    one.name                                  AS series,        -- eager, compile, max_autotune or candidate
    one.name = timing.best                    AS best,          -- the fastest baseline of this run
    timing.median_ms[one.name]                AS median_ms,
    timing.speedup[one.name].low              AS speedup_low,   -- the candidate's speedup against this series
    timing.speedup[one.name].median           AS speedup,
    timing.speedup[one.name].high             AS speedup_high,
    len(one.samples_ns)                       AS rounds,
    one.calls                                 AS calls,         -- that one sample is the mean of
    one.samples_ns                            AS samples_ns,    -- one per round; sample i of every series: round i
    report.verdict                            AS verdict,
    report.roofline.floor_ms                  AS floor_ms,
    if(one.name = 'candidate', report.roofline.fraction, NULL) AS roofline_fraction,
    report.roofline.limit                     AS roofline_limit,
    if(one.name = 'candidate', report.counters, NULL) AS counters,  -- hardware counters, where there are any
    report.isolation                          AS isolation,
    report.seconds                            AS seconds,       -- of the whole run
    at_ns,
    make_timestamp(at_ns // 1000)             AS at             -- UTC
FROM series
