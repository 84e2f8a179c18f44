-- title: How long does each stage of the ring take?
-- meaning: >-
--   From an event to the answer to it, queueing included, for first runs of candidates in the latest sessions. Where
--   the 90th percentile is far above the median, candidates wait for a worker.
-- columns:
--   stage: which part of the way
--   nodes: nodes that went through it
--   median_seconds: median
--   p90_seconds: 90th percentile
--   share: of all time that nodes spent
-- parameters:
--   sessions:
--     default: 500
--     meaning: how many of the latest sessions to read
WITH chosen AS MATERIALIZED (
    SELECT session FROM opened_events ORDER BY seq DESC LIMIT $sessions
), reached AS (
    SELECT session, node, 0 AS rank, at_ns FROM planned_events SEMI JOIN chosen USING (session)
    UNION ALL
    SELECT session, node, least(rank, 5), at_ns FROM step_events SEMI JOIN chosen USING (session) WHERE NOT confirmation
    UNION ALL
    SELECT session, node, 6, at_ns FROM diagnosed_events SEMI JOIN chosen USING (session) WHERE NOT confirmation
), stages AS (
    SELECT rank, (at_ns - lag(at_ns) OVER (PARTITION BY session, node ORDER BY rank, at_ns)) / 1e9 AS seconds FROM reached
)
SELECT ['proposed', 'compiled', 'verified', 'profiled', 'failed', 'diagnosed'][rank] AS stage, count(*) AS nodes,
    median(seconds) AS median_seconds, quantile_cont(seconds, 0.9) AS p90_seconds, sum(seconds) / sum(sum(seconds)) OVER () AS share
FROM stages WHERE rank > 0 AND seconds IS NOT NULL
GROUP BY rank ORDER BY rank
