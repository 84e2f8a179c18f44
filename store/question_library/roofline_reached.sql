-- title: How close to the machine's limit did we get?
-- meaning: >-
--   The largest roofline fraction of a right candidate, by problem and pool, beside that of the best baseline. Near
--   1 there is nothing left to win; far below it there is.
-- columns:
--   problem: problem
--   pool: pool
--   baseline_fraction: floor over the best baseline's time
--   best_fraction: best candidate's
--   limit: where the floor comes from, memory or compute
--   sessions: sessions
WITH reached AS (
    SELECT session, max(roofline_fraction) AS fraction FROM diagnosed_events WHERE verdict = 'correct' GROUP BY session
), beaten AS (
    SELECT session, max(roofline_fraction) AS fraction, any_value(roofline_limit) AS limit FROM baseline_events GROUP BY session
)
SELECT problem, pool, max(beaten.fraction) AS baseline_fraction, max(reached.fraction) AS best_fraction,
    any_value(beaten.limit) AS limit, count(*) AS sessions
FROM opened_events LEFT JOIN reached USING (session) LEFT JOIN beaten USING (session)
GROUP BY ALL ORDER BY best_fraction DESC NULLS LAST, problem, pool
