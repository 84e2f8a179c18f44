-- First timings of sessions' baselines.
SELECT seq, session, pool, at_ns,
    b.report.best                   AS best,
    b.report.median_ms              AS median_ms,
    b.report.roofline.floor_ms      AS floor_ms,
    b.report.roofline.fraction      AS roofline_fraction,
    b.report.roofline.limit         AS roofline_limit,
    b.report.seconds                AS seconds
FROM (
    SELECT *, json_transform(body, '{"report": {"best": "VARCHAR", "median_ms": "MAP(VARCHAR, DOUBLE)",
        "seconds": "DOUBLE", "roofline": {"floor_ms": "DOUBLE", "fraction": "DOUBLE", "limit": "VARCHAR"}}}') AS b
    FROM events WHERE tag = 'baselines.measured.v1'
)
