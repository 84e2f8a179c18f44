-- Files that outside authors handed in, without their sources.
SELECT seq, id, session, at_ns, b.lease, b.sha256
FROM (
    SELECT *, json_transform(body, '{"lease": "VARCHAR", "sha256": "VARCHAR"}') AS b
    FROM events WHERE tag = 'task.submitted.v1'
)
