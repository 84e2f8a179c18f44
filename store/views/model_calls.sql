-- One row per request to a language model.
--   event: id of the event
--   session: session it was made for
--   pool: pool of the session
--   node: node it was made for
--   role: agent that asked: synthesizer (the author), analyst, planner, distiller, deep_search, context_memory
--   backend: author that asked
--   model: model that was asked
--   stop_reason: why the answer ended, as the provider says it; error if the call failed
--   input_tokens: tokens of the request that were not read from a cache
--   output_tokens: tokens of the answer
--   cache_read_tokens: tokens of the request that were read from a cache
--   cache_write_tokens: tokens of the request that were written to a cache
--   cost: US dollars by the price of the day; NULL if no price was known
--   price_date: when that price was looked up, else ''
--   estimated: whether the server did not count the tokens, so that they are counted by characters
--   latency_ms: time until the answer was there, milliseconds
--   attempt: which try it was, from 1
--   error: kind and message of a failure, else ''
--   request: the request as JSON, without secrets
--   completion: text of the answer
--   tool_calls: tools that the model wanted called, as a JSON list, else ''
--   at_ns: when it was answered, nanoseconds since the epoch
--   at: when it was answered, UTC
SELECT
    events.id                             AS event,
    called.session,
    called.pool,
    called.node,
    called.agent                          AS role,
    called.backend,
    called.model,
    called.stop_reason,
    called.input_tokens,
    called.output_tokens,
    called.cache_read_tokens,
    called.cache_write_tokens,
    called.cost,
    called.price_date,
    called.estimated,
    called.latency_ms,
    called.attempt,
    called.error,
    events.body->>'$.request'             AS request,
    events.body->>'$.completion'          AS completion,
    coalesce(events.body->>'$.tool_calls', '') AS tool_calls,
    called.at_ns,
    make_timestamp(called.at_ns // 1000)  AS at
FROM called_events AS called
JOIN events ON events.seq = called.seq AND events.tag = 'model.called.v1'
