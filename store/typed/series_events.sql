-- Implementations in timing runs, without their samples; of several timed shapes their mean, then each.
SELECT seq, session, pool, node, at_ns, worker,
    coalesce(b.confirmation, false)           AS confirmation,
    run.ordinary                              AS ordinary, -- whether in ordinary processes, else in the interleaved benchmark
    run.shape                                 AS shape, -- NULL for the only one, and for the mean of several
    run.shape_place                           AS shape_place, -- of the shape in the report, from 1
    place,                                    -- of the series in the run, from 1
    one.name                                  AS series,
    one.name = run.best                       AS best,
    run.median_ms[one.name]                   AS median_ms,
    run.speedup[one.name].low                 AS speedup_low,
    run.speedup[one.name].median              AS speedup,
    run.speedup[one.name].high                AS speedup_high,
    len(one.samples_ns)                       AS rounds,
    one.calls                                 AS calls,
    (quartiles[3] - quartiles[1]) / nullif(quartiles[2], 0) AS noise,
    b.report.verdict                          AS verdict,
    run.roofline.floor_ms                     AS floor_ms,
    if(one.name = 'candidate', run.roofline.fraction, NULL) AS roofline_fraction,
    run.roofline.limit                        AS roofline_limit,
    if(one.name = 'candidate' AND NOT run.ordinary AND run.shape IS NULL, b.report.counters, NULL) AS counters,
    if(run.ordinary, NULL, b.report.isolation) AS isolation,
    b.report.seconds                          AS seconds,
    run.background_load                       AS background_load -- of a mean of several shapes the largest
FROM (
    SELECT *, list_aggregate(one.samples_ns, 'quantile_cont', [0.25, 0.5, 0.75]) AS quartiles
    FROM (
        SELECT *, unnest(series) AS one, generate_subscripts(series, 1) AS place
        FROM (
            -- A mean has no samples of its own.
            SELECT *, if(len(run.series) > 0, run.series, list_transform(map_keys(run.median_ms),
                lambda name: {'name': name, 'samples_ns': []::BIGINT[], 'calls': 0::BIGINT})) AS series
            FROM (
                SELECT *, unnest(list_concat(
                    [{'ordinary': false, 'shape': NULL::VARCHAR, 'shape_place': 0::BIGINT, 'best': timed.best,
                        'median_ms': timed.median_ms, 'speedup': timed.speedup, 'roofline': b.report.roofline,
                        'series': timed.series, 'background_load': list_max(list_concat([timed.background_load],
                            list_transform(timed.shapes, lambda point: point.timing.background_load)))},
                     {'ordinary': true, 'shape': NULL, 'shape_place': 0, 'best': usual.best,
                        'median_ms': usual.median_ms, 'speedup': usual.speedup, 'roofline': NULL,
                        'series': usual.series, 'background_load': list_max(list_concat([usual.background_load],
                            list_transform(usual.shapes, lambda point: point.timing.background_load)))}],
                    list_transform(timed.shapes, lambda point, number: {'ordinary': false, 'shape': point.shape,
                        'shape_place': number, 'best': point.timing.best, 'median_ms': point.timing.median_ms,
                        'speedup': point.timing.speedup, 'roofline': point.roofline, 'series': point.timing.series,
                        'background_load': point.timing.background_load}),
                    list_transform(usual.shapes, lambda point, number: {'ordinary': true, 'shape': point.shape,
                        'shape_place': number, 'best': point.timing.best, 'median_ms': point.timing.median_ms,
                        'speedup': point.timing.speedup, 'roofline': NULL, 'series': point.timing.series,
                        'background_load': point.timing.background_load}))) AS run
                FROM (
                    SELECT *, b.report.timing AS timed, b.report.ordinary AS usual
                    FROM (
                        SELECT *, json_transform(body, '{"confirmation": "BOOLEAN", "report": {
                            "verdict": "VARCHAR", "isolation": "VARCHAR", "seconds": "DOUBLE", "counters": "JSON",
                            "roofline": {"floor_ms": "DOUBLE", "fraction": "DOUBLE", "limit": "VARCHAR"},
                            "timing": {"best": "VARCHAR", "background_load": "DOUBLE", "median_ms": "MAP(VARCHAR, DOUBLE)",
                                "speedup": "MAP(VARCHAR, STRUCT(low DOUBLE, median DOUBLE, high DOUBLE))",
                                "series": [{"name": "VARCHAR", "samples_ns": ["BIGINT"], "calls": "BIGINT"}],
                                "shapes": [{"shape": "VARCHAR",
                                    "roofline": {"floor_ms": "DOUBLE", "fraction": "DOUBLE", "limit": "VARCHAR"},
                                    "timing": {"best": "VARCHAR", "background_load": "DOUBLE", "median_ms": "MAP(VARCHAR, DOUBLE)",
                                        "speedup": "MAP(VARCHAR, STRUCT(low DOUBLE, median DOUBLE, high DOUBLE))",
                                        "series": [{"name": "VARCHAR", "samples_ns": ["BIGINT"], "calls": "BIGINT"}]}}]},
                            "ordinary": {"best": "VARCHAR", "background_load": "DOUBLE", "median_ms": "MAP(VARCHAR, DOUBLE)",
                                "speedup": "MAP(VARCHAR, STRUCT(low DOUBLE, median DOUBLE, high DOUBLE))",
                                "series": [{"name": "VARCHAR", "samples_ns": ["BIGINT"], "calls": "BIGINT"}],
                                "shapes": [{"shape": "VARCHAR",
                                    "timing": {"best": "VARCHAR", "background_load": "DOUBLE", "median_ms": "MAP(VARCHAR, DOUBLE)",
                                        "speedup": "MAP(VARCHAR, STRUCT(low DOUBLE, median DOUBLE, high DOUBLE))",
                                        "series": [{"name": "VARCHAR", "samples_ns": ["BIGINT"], "calls": "BIGINT"}]}}]}}}') AS b
                        FROM events WHERE tag IN ('candidate.profiled.v1', 'candidate.profiling_failed.v1')
                    )
                )
            )
        )
    )
)
