-- One row per session: what was asked, how it stands, what came out. While it is open, its counts are those so far.
WITH opened AS (
    SELECT session, pool, at_ns, json_transform(body, '{
        "problem": {"name": "VARCHAR", "sha256": "VARCHAR"}, "hardware": {"device": "VARCHAR"},
        "budget": "BIGINT", "seed": "BIGINT", "policy": "VARCHAR", "minutes": "DOUBLE", "target": "DOUBLE",
        "synthesizer": "VARCHAR", "model": "VARCHAR", "language": "VARCHAR",
        "origin": {"session": "VARCHAR", "node": "VARCHAR"}, "version": "VARCHAR"}') AS b
    FROM events WHERE tag = 'session.opened.v1'
), closed AS (
    SELECT session, at_ns, json_transform(body, '{
        "reason": "VARCHAR", "best": "VARCHAR", "win": "BOOLEAN", "against": "VARCHAR", "detail": "VARCHAR",
        "speedup": {"low": "DOUBLE", "median": "DOUBLE", "high": "DOUBLE"},
        "candidates": "BIGINT", "correct": "BIGINT", "wins": "BIGINT"}') AS b
    FROM events WHERE tag = 'session.closed.v1'
    QUALIFY row_number() OVER (PARTITION BY session ORDER BY seq) = 1
), so_far AS (
    SELECT session, count(*) AS candidates, count(*) FILTER (verdict = 'correct') AS correct,
        count(*) FILTER (speedup_low > 1) AS wins,
        arg_max({'node': node, 'low': speedup_low, 'median': speedup, 'high': speedup_high, 'against': against}, speedup) AS top
    FROM nodes GROUP BY session
), latest AS (
    SELECT session, max(at_ns) AS at_ns FROM events GROUP BY session
)
SELECT
    opened.session,
    opened.b.problem.name                                AS problem,
    opened.pool,
    if(closed.session IS NULL, 'open', 'closed')         AS status,
    closed.b.reason                                      AS reason,     -- why it ended
    coalesce(closed.b.win, false)                        AS win,        -- confirmed interval above 1 against the best baseline
    if(closed.session IS NULL, top.low, closed.b.speedup.low)        AS speedup_low,
    if(closed.session IS NULL, top.median, closed.b.speedup.median)  AS speedup,
    if(closed.session IS NULL, top.high, closed.b.speedup.high)      AS speedup_high,
    if(closed.session IS NULL, top.against, closed.b.against)        AS against,  -- the best baseline's name
    if(closed.session IS NULL, top.node, closed.b.best)              AS best,     -- node of the best candidate
    coalesce(closed.b.candidates, so_far.candidates, 0)  AS candidates, -- planned
    coalesce(closed.b.correct, so_far.correct, 0)        AS correct,    -- of them: verified and timed
    coalesce(closed.b.wins, so_far.wins, 0)              AS wins,       -- of them: interval above 1
    opened.b.budget                                      AS budget,
    opened.b.minutes                                     AS minutes,
    opened.b.target                                      AS target,
    opened.b.seed                                        AS seed,
    opened.b.policy                                      AS policy,
    opened.b.synthesizer                                 AS synthesizer,
    opened.b.model                                       AS model,
    opened.b.language                                    AS language,
    opened.b.hardware.device                             AS device,
    opened.b.problem.sha256                              AS problem_sha256,
    opened.b.origin.session                              AS origin_session,  -- of a fork
    opened.b.origin.node                                 AS origin_node,
    opened.b.version                                     AS version,    -- of kernelswarm
    closed.b.detail                                      AS detail,
    (coalesce(closed.at_ns, latest.at_ns) - opened.at_ns) / 1e9      AS seconds,  -- until its end, or its latest event
    opened.at_ns                                         AS at_ns,
    make_timestamp(opened.at_ns // 1000)                 AS at          -- UTC
FROM opened
LEFT JOIN closed USING (session)
LEFT JOIN so_far USING (session)
LEFT JOIN latest USING (session)
