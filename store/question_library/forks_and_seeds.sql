-- title: What did forks and seeds bring?
-- meaning: >-
--   Every session that was forked from another or seeded with the kernels of others, beside the best of those it
--   came from.
-- columns:
--   session: session
--   problem: problem
--   pool: pool
--   kind: fork or seed
--   origins: sessions it came from
--   origin_speedup: best speedup among them
--   speedup: its own best
--   gain: own over origin's; above 1 it brought something
WITH came AS (
    SELECT session, 'fork' AS kind, origin_session AS origin FROM opened_events WHERE origin_session IS NOT NULL
    UNION ALL
    SELECT session, 'seed', unnest(seeds) FROM opened_events
), known AS MATERIALIZED (SELECT session, problem, pool, speedup, at_ns FROM sessions)
SELECT came.session, any_value(child.problem) AS problem, any_value(child.pool) AS pool, kind, list(origin ORDER BY origin) AS origins,
    max(parent.speedup) AS origin_speedup, any_value(child.speedup) AS speedup,
    any_value(child.speedup) / max(parent.speedup) AS gain
FROM came JOIN known AS child ON child.session = came.session LEFT JOIN known AS parent ON parent.session = came.origin
GROUP BY came.session, kind ORDER BY max(child.at_ns) DESC, came.session, kind
