-- title: How noisy are measurements, by host?
-- meaning: >-
--   Distance between the quartiles of a series' samples over their median. Beside a quiet host at 0.01 one at 0.2
--   measures other processes, not kernels.
-- columns:
--   host: host of the profiler
--   pool: pool
--   series: how many timing series
--   median_noise: median
--   p90_noise: 90th percentile
-- parameters:
--   pool:
--     default: '%'
--     meaning: pool, a pattern as in LIKE
SELECT regexp_replace(worker, '\.[^.]*\.[^.]*\.[^.]*$', '') AS host, pool, count(*) AS series,
    median(noise) AS median_noise, quantile_cont(noise, 0.9) AS p90_noise
FROM series_events WHERE pool ILIKE $pool AND NOT ordinary AND noise IS NOT NULL
GROUP BY ALL ORDER BY median_noise DESC, host, pool
