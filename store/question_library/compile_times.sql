-- title: How long does compiling take?
-- meaning: >-
--   Compilations by pool, with how many found their artifact there already.
-- columns:
--   pool: pool
--   compilations: compilations
--   failed: of them, refused by the compiler
--   cached: of them, artifact there already
--   median_seconds: of those that compiled, in the median
--   p90_seconds: 90th percentile
SELECT pool, count(*) AS compilations, count(*) FILTER (failed) AS failed, count(*) FILTER (cached) AS cached,
    median(seconds) FILTER (NOT cached) AS median_seconds, quantile_cont(seconds, 0.9) FILTER (NOT cached) AS p90_seconds
FROM steps WHERE role = 'compiler'
GROUP BY pool ORDER BY pool
