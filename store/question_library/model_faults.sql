-- title: How reliable are models?
-- meaning: >-
--   Requests to language models by how they ended, and how long they took.
-- columns:
--   model: model
--   stop_reason: why the answer ended, as the provider says it
--   calls: requests
--   retried: of them, not the first try
--   error: most frequent kind of failure, else NULL
--   median_ms: time until the answer, milliseconds, in the median
--   p90_ms: 90th percentile
SELECT model, stop_reason, count(*) AS calls, count(*) FILTER (attempt > 1) AS retried, mode(nullif(split_part(error, ':', 1), '')) AS error,
    median(latency_ms) AS median_ms, quantile_cont(latency_ms, 0.9) AS p90_ms
FROM called_events GROUP BY ALL ORDER BY model, calls DESC, stop_reason
