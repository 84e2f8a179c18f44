-- title: How idle is each role?
-- meaning: >-
--   How long workers of a role were at work, over the time that sessions of the pool were open, for each worker. Time is
--   counted for each session, so a worker that serves several at once may exceed 1. Near 0 a role has workers to spare;
--   near 1 the others wait for it.
-- columns:
--   pool: pool
--   role: role
--   workers: workers that were seen
--   busy_seconds: time at work, of all of them
--   open_seconds: time that sessions were open, added up
--   busy_share: busy time over workers and open time
--   idle_share: the rest
WITH open AS (
    SELECT pool, sum(seconds) AS seconds FROM sessions GROUP BY pool
), busy AS (
    SELECT pool, role, worker, seconds FROM steps WHERE seconds IS NOT NULL
    UNION ALL
    SELECT pool, 'synthesizer', '', latency_ms / 1e3 FROM called_events
    WHERE agent NOT IN ('analyst', 'planner', 'distiller')
), added AS (
    SELECT pool, role, count(DISTINCT worker) AS workers, sum(seconds) AS seconds FROM busy GROUP BY ALL
)
SELECT pool, role, workers, added.seconds AS busy_seconds, open.seconds AS open_seconds,
    busy_seconds / nullif(workers * open_seconds, 0) AS busy_share, greatest(0, 1 - busy_share) AS idle_share
FROM added JOIN open USING (pool)
ORDER BY pool, role
