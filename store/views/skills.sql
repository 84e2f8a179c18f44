-- One row per skill that a session left, the latest version of each id.
--   skill: id of the skill
--   session: session that taught it
--   title: what it is about
--   pool: pool it was learned on
--   platform: platform of that pool
--   operators: ATen operators of the problem it was learned on
--   dtype: precision of that problem
--   sizes: bytes read, bytes written and operations at the main shape
--   speedup: speedup of the best kernel that it names, by the judge, as in nodes
--   recipes: tunable settings to try first, best first
--   evidence: ids of the events it rests on
--   text: the document, markdown
--   event: id of the event
--   at_ns: when it was distilled, nanoseconds since the epoch
--   at: when it was distilled, UTC
SELECT
    skill,
    session,
    title,
    pool,
    platform,
    operators,
    dtype,
    sizes,
    speedup,
    recipes,
    evidence,
    text,
    id                               AS event,
    at_ns,
    make_timestamp(at_ns // 1000)    AS at
FROM skill_events
QUALIFY row_number() OVER (PARTITION BY skill ORDER BY seq DESC) = 1
