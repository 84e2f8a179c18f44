-- Plans of nodes.
SELECT seq, session, pool, node, at_ns,
    b.number, b.parent, b.intent, b.memory, b.synthesizer,
    list_transform(coalesce(b.advice, []), lambda one: one.action) AS advice
FROM (
    SELECT *, json_transform(body, '{
        "parent": "VARCHAR", "intent": "VARCHAR", "memory": "VARCHAR", "number": "BIGINT", "synthesizer": "VARCHAR",
        "advice": [{"action": "VARCHAR"}]}') AS b
    FROM events WHERE tag = 'node.planned.v1'
)
