-- title: Which diagnosis led to the biggest gains?
-- meaning: >-
--   What a node's bottleneck was, and how much faster than it the kernels were that were made from it. A diagnosis
--   with a high gain is one that the search can act on.
-- columns:
--   bottleneck: what limited the parent
--   children: timed kernels made from such parents
--   improved: of them, faster than their parent
--   median_gain: median of child's over parent's speedup
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
), timed AS MATERIALIZED (
    SELECT session, node, parent, speedup, bottleneck FROM nodes SEMI JOIN chosen USING (session) WHERE verdict = 'correct'
), gains AS (
    SELECT parent.bottleneck, child.speedup / parent.speedup AS gain
    FROM timed AS child JOIN timed AS parent ON parent.session = child.session AND parent.node = child.parent
)
SELECT bottleneck, count(*) AS children, count(*) FILTER (gain > 1) AS improved, median(gain) AS median_gain,
    max(gain) AS best_gain
FROM gains GROUP BY bottleneck ORDER BY median_gain DESC, bottleneck
