-- title: Which tunable settings win on which problem?
-- meaning: >-
--   Settings of configs among the correct candidates of a problem: how fast the candidates with a setting are in the
--   median, and how many of them beat the best baseline. Compare settings of one tunable with each other.
-- columns:
--   problem: problem
--   tunable: name of the tunable
--   setting: value of the tunable
--   candidates: correct candidates with it
--   wins: of them, interval above 1
--   median_speedup: median speedup against the best baseline
--   best_speedup: largest speedup
-- parameters:
--   problem:
--     default: '%'
--     meaning: problem, a pattern as in LIKE
--   sessions:
--     default: 500
--     meaning: how many of the latest sessions to read
WITH chosen AS MATERIALIZED (
    SELECT session, problem FROM sessions WHERE problem ILIKE $problem ORDER BY at_ns DESC LIMIT $sessions
), judged AS (
    SELECT session, node, arg_max_null(speedup, seq) AS speedup, arg_max_null(speedup_low, seq) AS low
    FROM diagnosed_events SEMI JOIN chosen USING (session) GROUP BY session, node
), set_to AS (
    SELECT session, node, unnest(map_entries(from_json(recipe, '"MAP(VARCHAR, VARCHAR)"'))) AS one
    FROM proposed_events SEMI JOIN chosen USING (session) WHERE recipe <> '{}'
)
SELECT problem, one.key AS tunable, one.value AS setting, count(*) AS candidates, count(*) FILTER (low > 1) AS wins,
    median(speedup) AS median_speedup, max(speedup) AS best_speedup
FROM set_to JOIN chosen USING (session) JOIN judged USING (session, node)
WHERE speedup IS NOT NULL
GROUP BY ALL ORDER BY problem, tunable, median_speedup DESC, setting
