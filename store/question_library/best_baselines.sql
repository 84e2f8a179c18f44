-- title: Which baseline is the one to beat?
-- meaning: >-
--   How often each baseline was the fastest in a session's first timing, by problem and pool, and how far from the
--   floor it is.
-- columns:
--   problem: problem
--   pool: pool
--   baseline: eager, compile or max_autotune
--   sessions: sessions that timed it
--   best: of them, where it was the fastest
--   median_ms: median of its times, milliseconds
--   floor_fraction: median of floor over its time
SELECT problem, baselines.pool, baseline, count(*) AS sessions, count(*) FILTER (best) AS best, median(median_ms) AS median_ms,
    median(floor_fraction) AS floor_fraction
FROM baselines JOIN (SELECT session, problem FROM opened_events) USING (session)
GROUP BY ALL ORDER BY problem, pool, median_ms, baseline
