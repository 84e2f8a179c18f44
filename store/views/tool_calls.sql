-- One row per call of a tool by a model.
--   event: id of the event
--   session: session it was made for
--   pool: pool of the session
--   node: node it was made for
--   backend: author that called it
--   tool: name of the tool
--   failed: whether it could not be carried out
--   seconds: until the answer was there; of calls at once, until all were
--   arguments: JSON, as the model wrote it
--   result: what the model was answered
--   at_ns: when the conversation's events were published, nanoseconds since the epoch
--   at: the same, UTC
SELECT
    id                                    AS event,
    session,
    pool,
    node,
    body->>'$.backend'                    AS backend,
    body->>'$.tool'                       AS tool,
    coalesce((body->'$.failed')::BOOLEAN, false)  AS failed,
    coalesce((body->'$.seconds')::DOUBLE, 0)      AS seconds,
    body->>'$.arguments'                  AS arguments,
    body->>'$.result'                     AS result,
    at_ns,
    make_timestamp(at_ns // 1000)         AS at
FROM events WHERE tag = 'tool.called.v1'
