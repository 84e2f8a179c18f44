-- One row per candidate kernel, with its source and what became of it.
--   event: id of the event that proposed it
--   session: session it was proposed in
--   pool: pool of the session
--   node: node it is the candidate of
--   language: language it is written in
--   backend: synthesizer that made it
--   author: the same as users name it, as in nodes
--   rationale: why it should be faster, in the synthesizer's words
--   recipe: tunable settings by name, for synthesizers that have tunables
--   parents: nodes whose source it was made from
--   skills: ids of the skills that were used
--   state: how far its node got, as in nodes
--   verdict: verdict on its node
--   fitness: fitness of its node, as in nodes
--   speedup: speedup of its node, by the judge, as in nodes
--   sha256: hash of the source; the same for the same file
--   source: the whole file
--   at_ns: when it was proposed, nanoseconds since the epoch
--   at: when it was proposed, UTC
SELECT
    events.id                                 AS event,
    proposed.session,
    proposed.pool,
    proposed.node,
    proposed.language,
    proposed.backend,
    nodes.author,
    events.body->>'$.rationale'               AS rationale,
    proposed.recipe,
    proposed.parents,
    proposed.skills,
    nodes.state,
    nodes.verdict,
    nodes.fitness,
    nodes.speedup,
    proposed.sha256,
    events.body->>'$.source'                  AS source,
    proposed.at_ns,
    make_timestamp(proposed.at_ns // 1000)    AS at
FROM proposed_events AS proposed
JOIN events ON events.seq = proposed.seq AND events.tag = 'candidate.proposed.v1'
LEFT JOIN nodes ON nodes.session = proposed.session AND nodes.node = proposed.node
