-- Requests to language models, without what was said; agent is the role that asked, or the author's sub-agent.
SELECT seq, session, pool, node, at_ns,
    coalesce(nullif(b.role, ''), agent) AS agent,
    b.backend, b.model, b.stop_reason, b.input_tokens, b.output_tokens,
    coalesce(b.cache_read_tokens, 0)    AS cache_read_tokens,
    coalesce(b.cache_write_tokens, 0)   AS cache_write_tokens,
    coalesce(b.latency_ms, 0)           AS latency_ms,
    coalesce(b.attempt, 1)              AS attempt,
    coalesce(b.error, '')               AS error,
    b.cost,
    coalesce(b.price_date, '')          AS price_date,
    coalesce(b.estimated, false)        AS estimated
FROM (
    SELECT *, json_transform(body, '{
        "backend": "VARCHAR", "model": "VARCHAR", "stop_reason": "VARCHAR",
        "input_tokens": "BIGINT", "output_tokens": "BIGINT", "cache_read_tokens": "BIGINT", "cache_write_tokens": "BIGINT",
        "latency_ms": "DOUBLE", "error": "VARCHAR", "attempt": "BIGINT", "cost": "DOUBLE",
        "price_date": "VARCHAR", "estimated": "BOOLEAN", "role": "VARCHAR"}') AS b
    FROM events WHERE tag = 'model.called.v1'
)
