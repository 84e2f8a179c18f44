-- One row per session, node, role and model: what it cost, and what came of it.
--   session: session
--   pool: pool of the session
--   node: node it was spent on; '' for what is about no node
--   role: agent that asked: synthesizer (the author), analyst, planner, distiller, deep_search, context_memory
--   backend: author that asked
--   model: model that was asked
--   calls: requests, failed ones included
--   failed_calls: of them, failed
--   input_tokens: tokens of requests that no cache was read or written for
--   output_tokens: tokens of answers
--   cache_read_tokens: tokens of requests that were read from a cache
--   cache_write_tokens: tokens of requests that were written to a cache
--   cache_hit_rate: share of the requests' tokens that a cache gave; NULL without tokens
--   cost: US dollars; NULL if no price was known for any of it
--   seconds: time that the answers took together
--   verdict: verdict on the node's candidate; NULL while it is under way
--   speedup: median speedup of it
--   win: whether its interval lies above 1
--   at_ns: when the last of it was answered, nanoseconds since the epoch
--   at: the same, UTC
SELECT
    called.session,
    called.pool,
    called.node,
    called.agent                          AS role,
    called.backend,
    called.model,
    count(*)                              AS calls,
    count(*) FILTER (called.error <> '')  AS failed_calls,
    sum(called.input_tokens)::BIGINT      AS input_tokens,
    sum(called.output_tokens)::BIGINT     AS output_tokens,
    sum(called.cache_read_tokens)::BIGINT AS cache_read_tokens,
    sum(called.cache_write_tokens)::BIGINT AS cache_write_tokens,
    sum(called.cache_read_tokens) / nullif(sum(called.input_tokens + called.cache_read_tokens + called.cache_write_tokens), 0)
                                          AS cache_hit_rate,
    sum(called.cost)                      AS cost,
    sum(called.latency_ms) / 1e3          AS seconds,
    any_value(nodes.verdict)              AS verdict,
    any_value(nodes.speedup)              AS speedup,
    coalesce(any_value(nodes.speedup_low) > 1, false) AS win,
    max(called.at_ns)                     AS at_ns,
    make_timestamp(max(called.at_ns) // 1000) AS at
FROM called_events AS called
LEFT JOIN nodes ON nodes.session = called.session AND nodes.node = called.node
GROUP BY called.session, called.pool, called.node, called.agent, called.backend, called.model
