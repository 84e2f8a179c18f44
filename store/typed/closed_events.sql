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
    b.judged.median IS NOT NULL     AS ordinary,      -- whether the speedup is that of ordinary processes
    b.judged.low                    AS judged_low,
    b.judged.median                 AS judged_speedup,
    b.judged.high                   AS judged_high,
    b.judged_against,
    b.call.low                      AS call_low,
    b.call.median                   AS call_speedup,
    b.call.high                     AS call_high,
    b.call_against
FROM (
    SELECT *, json_transform(body, '{
        "reason": "VARCHAR", "best": "VARCHAR", "win": "BOOLEAN", "against": "VARCHAR", "detail": "VARCHAR",
        "speedup": {"low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE"},
        "candidates": "BIGINT", "correct": "BIGINT", "wins": "BIGINT",
        "judged": {"low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE"}, "judged_against": "VARCHAR",
        "call": {"low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE"}, "call_against": "VARCHAR"}') AS b
    FROM events WHERE tag = 'session.closed.v1'
)
