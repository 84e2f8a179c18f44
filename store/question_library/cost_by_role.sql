-- title: What does each role cost?
-- meaning: >-
--   Requests to language models by who asked: the authors (synthesizer) with their sub-agents, and the roles of the
--   ring that go by a model. Of those: how often the model's answer was used, else their rules decided.
-- columns:
--   role: synthesizer, deep_search, context_memory, analyst, planner or distiller
--   backend: whose format the server speaks
--   model: model that was asked
--   sessions: sessions in which it was asked
--   calls: requests, failed ones included
--   failed_calls: of them, failed
--   tokens: of requests and answers, caches included
--   cache_hit_rate: share of the requests' tokens that a cache gave
--   cost: US dollars; NULL if no price was known
--   median_ms: time until the answer, milliseconds, in the median
--   decisions: how often a role of the ring asked; 0 for authors and their sub-agents
--   by_model: how often the model's answer was used
--   session_wins: sessions of these that ended with a win
WITH decided AS (
    SELECT body->>'$.role' AS role, body->>'$.backend' AS backend, body->>'$.model' AS model, count(*) AS decisions,
        count(*) FILTER ((body->>'$.by_model')::BOOLEAN) AS by_model
    FROM events WHERE tag = 'role.decided.v1' GROUP BY ALL
)
SELECT called.agent AS role, called.backend, called.model, count(DISTINCT called.session) AS sessions, count(*) AS calls,
    count(*) FILTER (called.error <> '') AS failed_calls,
    sum(called.input_tokens + called.cache_read_tokens + called.cache_write_tokens + called.output_tokens)::BIGINT AS tokens,
    sum(called.cache_read_tokens)
        / nullif(sum(called.input_tokens + called.cache_read_tokens + called.cache_write_tokens), 0) AS cache_hit_rate,
    sum(called.cost) AS cost, median(called.latency_ms) AS median_ms,
    coalesce(any_value(decided.decisions), 0) AS decisions, coalesce(any_value(decided.by_model), 0) AS by_model,
    count(DISTINCT called.session) FILTER (sessions.win) AS session_wins
FROM called_events AS called
LEFT JOIN decided ON decided.role = called.agent AND decided.backend = called.backend AND decided.model = called.model
LEFT JOIN sessions ON sessions.session = called.session
GROUP BY called.agent, called.backend, called.model
ORDER BY cost DESC NULLS LAST, tokens DESC, role, model
