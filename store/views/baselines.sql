-- One row per baseline and time that a session measured all of them: before the first candidate, and when one joins.
--   session: session that timed it
--   pool: pool of the session
--   baseline: eager, compile or max_autotune
--   median_ms: median time of one call, milliseconds
--   best: whether it was the fastest of them
--   floor_ms: least time of any implementation on this machine, milliseconds
--   floor_fraction: floor over this baseline's time; at 1 there is nothing to win
--   limit: memory or compute: where the floor comes from
--   seconds: time to compile and time all baselines, seconds
--   at_ns: when they were ready, nanoseconds since the epoch
--   at: when they were ready, UTC
SELECT
    session,
    pool,
    one.key                          AS baseline,
    one.value                        AS median_ms,
    one.key = best                   AS best,
    floor_ms,
    floor_ms / nullif(one.value, 0)  AS floor_fraction,
    roofline_limit                   AS limit,
    seconds,
    at_ns,
    make_timestamp(at_ns // 1000)    AS at
FROM (SELECT *, unnest(map_entries(median_ms)) AS one FROM baseline_events)
