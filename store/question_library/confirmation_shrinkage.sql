-- title: How much of a first timing is luck?
-- meaning: >-
--   Speedups of finalists in their first timing and in the longer, second one. A median ratio below 1 comes from choosing
--   the best of noisy numbers.
-- columns:
--   pool: pool
--   finalists: nodes that were timed again
--   median_ratio: median of confirmed over first speedup
--   worst_ratio: smallest of them
--   lost: of them, a win in the first timing and not in the second
WITH again AS MATERIALIZED (
    SELECT session, node, arg_max(speedup, seq) AS speedup, arg_max(speedup_low, seq) AS low, any_value(pool) AS pool
    FROM diagnosed_events WHERE confirmation AND verdict = 'correct' GROUP BY session, node
), first AS (
    SELECT session, node, arg_min(speedup, seq) AS speedup, arg_min(speedup_low, seq) AS low
    FROM diagnosed_events SEMI JOIN again USING (session, node) WHERE NOT confirmation AND verdict = 'correct' GROUP BY session, node
)
SELECT again.pool AS pool, count(*) AS finalists, median(again.speedup / first.speedup) AS median_ratio,
    min(again.speedup / first.speedup) AS worst_ratio, count(*) FILTER (first.low > 1 AND again.low <= 1) AS lost
FROM again JOIN first USING (session, node)
GROUP BY again.pool ORDER BY median_ratio, pool
