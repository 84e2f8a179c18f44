-- Skills that sessions left.
SELECT seq, id, session, at_ns,
    s.id                            AS skill,
    s.title, s.pool, s.platform, s.operators, s.dtype, s.sizes,
    coalesce(s.speedup, 0)          AS speedup,
    coalesce(s.recipes, [])         AS recipes,
    coalesce(s.evidence, [])        AS evidence,
    s.text
FROM (
    SELECT seq, id, session, at_ns, json_transform(body, '{"skill": {
        "id": "VARCHAR", "title": "VARCHAR", "pool": "VARCHAR", "platform": "VARCHAR", "operators": ["VARCHAR"],
        "dtype": "VARCHAR", "sizes": ["BIGINT"], "text": "VARCHAR", "recipes": ["JSON"], "speedup": "DOUBLE",
        "evidence": ["VARCHAR"]}}').skill AS s
    FROM events WHERE tag = 'skill.distilled.v1'
)
