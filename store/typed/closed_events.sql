-- Sessions' closing events.
SELECT seq, session, at_ns,
    b.reason, b.best,
    coalesce(b.win, false)          AS win,
    b.speedup.low                   AS speedup_low,
    b.speedup.median                AS speedup,
    b.speedup.high                  AS speedup_high,
    b.against,
    coalesce(b.candidates, 0)       AS candidates,
    coalesce(b.correct, 0)          AS correct,
    coalesce(b.wins, 0)             AS wins,
    b.detail,
    b.judged.median IS NOT NULL     AS ordinary
FROM (
    SELECT *, json_transform(body, '{
        "reason": "VARCHAR", "best": "VARCHAR", "win": "BOOLEAN", "against": "VARCHAR", "detail": "VARCHAR",
        "speedup": {"low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE"},
        "candidates": "BIGINT", "correct": "BIGINT", "wins": "BIGINT", "judged": {"median": "DOUBLE"}}') AS b
    FROM events WHERE tag = 'session.closed.v1'
)
