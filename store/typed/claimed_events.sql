-- Leases of outside authors, as they were granted or renewed.
SELECT seq, session, node, at_ns, b.lease, b.agent
FROM (
    SELECT *, json_transform(body, '{"lease": "VARCHAR", "agent": "VARCHAR"}') AS b
    FROM events WHERE tag = 'task.claimed.v1'
)
