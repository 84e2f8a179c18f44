-- title: Which advice worked?
-- meaning: >-
--   For every action that the planner passed on from a diagnosis: how the kernel that was made with it compares with
--   its parent. Wrong kernels count as tried, not as improved.
-- columns:
--   action: what was advised
--   tried: nodes planned with it
--   correct: of them, right and timed
--   improved: of them, faster than their parent
--   median_gain: median of child's over parent's speedup, among the correct
--   best_gain: largest of them
-- parameters:
--   device:
--     default: '%'
--     meaning: part of a device or pool name, a pattern as in LIKE
--   platform:
--     default: '%'
--     meaning: platform of the pool (cpu, nvidia, amd), a pattern as in LIKE
WITH chosen AS (
    SELECT session FROM sessions
    WHERE (coalesce(device, '') ILIKE $device OR pool ILIKE $device) AND coalesce(platform, '') ILIKE $platform
), judged AS MATERIALIZED (
    SELECT session, node, arg_max_null(verdict, seq) AS verdict, arg_max_null(speedup, seq) AS speedup
    FROM diagnosed_events GROUP BY session, node
), advised AS (
    SELECT session, node, parent, unnest(advice) AS action FROM planned_events SEMI JOIN chosen USING (session)
), gains AS (
    SELECT action, child.verdict, child.speedup / parent.speedup AS gain
    FROM advised
    JOIN judged AS parent ON parent.session = advised.session AND parent.node = advised.parent
    LEFT JOIN judged AS child ON child.session = advised.session AND child.node = advised.node
)
SELECT action, count(*) AS tried, count(*) FILTER (verdict = 'correct') AS correct, count(*) FILTER (gain > 1) AS improved,
    median(gain) AS median_gain, max(gain) AS best_gain
FROM gains GROUP BY action ORDER BY median_gain DESC NULLS LAST, action
