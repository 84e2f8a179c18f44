-- Candidates, without their sources.
SELECT seq, session, pool, node, cause, at_ns,
    b.language, b.backend, b.sha256,
    coalesce(b.recipe, '{}'::JSON)  AS recipe,
    coalesce(b.parents, [])         AS parents,
    coalesce(b.skills, [])          AS skills
FROM (
    SELECT *, json_transform(body, '{
        "sha256": "VARCHAR", "language": "VARCHAR", "backend": "VARCHAR", "recipe": "JSON",
        "parents": ["VARCHAR"], "skills": ["VARCHAR"]}') AS b
    FROM events WHERE tag = 'candidate.proposed.v1'
)
