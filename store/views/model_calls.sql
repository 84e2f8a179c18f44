-- One row per request to a language model.
WITH called AS (
    SELECT *, json_transform(body, '{
        "backend": "VARCHAR", "model": "VARCHAR", "request": "VARCHAR", "completion": "VARCHAR", "stop_reason": "VARCHAR",
        "input_tokens": "BIGINT", "output_tokens": "BIGINT", "cache_read_tokens": "BIGINT", "cache_write_tokens": "BIGINT",
        "latency_ms": "DOUBLE", "error": "VARCHAR", "attempt": "BIGINT"}') AS b
    FROM events WHERE tag = 'model.called.v1'
)
SELECT
    id                                    AS event,
    session,
    pool,
    node,
    b.backend                             AS backend,
    b.model                               AS model,
    b.stop_reason                         AS stop_reason,
    b.input_tokens                        AS input_tokens,
    b.output_tokens                       AS output_tokens,
    coalesce(b.cache_read_tokens, 0)      AS cache_read_tokens,
    coalesce(b.cache_write_tokens, 0)     AS cache_write_tokens,
    coalesce(b.latency_ms, 0)             AS latency_ms,
    coalesce(b.attempt, 1)                AS attempt,           -- from 1
    coalesce(b.error, '')                 AS error,
    b.request                             AS request,           -- JSON, without secrets
    b.completion                          AS completion,
    at_ns,
    make_timestamp(at_ns // 1000)         AS at                 -- UTC
FROM called
