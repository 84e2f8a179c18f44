-- One row per skill that a session left, the latest word on each id.
WITH distilled AS (
    SELECT *, json_transform(body, '{"skill": {
        "id": "VARCHAR", "title": "VARCHAR", "pool": "VARCHAR", "platform": "VARCHAR", "operators": ["VARCHAR"],
        "dtype": "VARCHAR", "sizes": ["BIGINT"], "text": "VARCHAR", "recipes": ["JSON"], "speedup": "DOUBLE",
        "evidence": ["VARCHAR"]}}').skill AS s
    FROM events WHERE tag = 'skill.distilled.v1'
)
SELECT
    s.id                             AS skill,
    session,                                            -- that taught it
    s.title                          AS title,
    s.pool                           AS pool,
    s.platform                       AS platform,
    s.operators                      AS operators,      -- of the problem it was learned on
    s.dtype                          AS dtype,
    s.sizes                          AS sizes,          -- bytes read, bytes written, operations
    coalesce(s.speedup, 0)           AS speedup,        -- confirmed, against the best baseline
    coalesce(s.recipes, [])          AS recipes,        -- to try first, best first
    coalesce(s.evidence, [])         AS evidence,       -- ids of the events it rests on
    s.text                           AS text,           -- the document
    id                               AS event,
    at_ns,
    make_timestamp(at_ns // 1000)    AS at              -- UTC
FROM distilled
QUALIFY row_number() OVER (PARTITION BY s.id ORDER BY seq DESC) = 1
