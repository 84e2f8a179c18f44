-- One row per candidate kernel, with its source and what became of it.
WITH proposed AS (
    SELECT *, json_transform(body, '{
        "source": "VARCHAR", "sha256": "VARCHAR", "language": "VARCHAR", "backend": "VARCHAR", "rationale": "VARCHAR",
        "recipe": "JSON", "parents": ["VARCHAR"], "skills": ["VARCHAR"]}') AS b
    FROM events WHERE tag = 'candidate.proposed.v1'
)
SELECT
    proposed.id                               AS event,
    proposed.session,
    proposed.pool,
    proposed.node,
    proposed.b.language                       AS language,
    proposed.b.backend                        AS backend,     -- the synthesizer that made it
    proposed.b.rationale                      AS rationale,
    coalesce(proposed.b.recipe, '{}'::JSON)   AS recipe,      -- knob settings
    coalesce(proposed.b.parents, [])          AS parents,     -- nodes whose source it was made from
    coalesce(proposed.b.skills, [])           AS skills,      -- ids of the skills it used
    nodes.state,
    nodes.verdict,
    nodes.fitness,
    nodes.speedup,
    proposed.b.sha256                         AS sha256,
    proposed.b.source                         AS source,      -- the whole file
    proposed.at_ns,
    make_timestamp(proposed.at_ns // 1000)    AS at           -- UTC
FROM proposed
LEFT JOIN nodes USING (session, node)
