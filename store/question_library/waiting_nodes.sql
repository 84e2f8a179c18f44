-- title: Which nodes of open sessions wait for an answer?
-- meaning: >-
--   Nodes that were planned and not diagnosed yet, by pool and state: where work piles up right now, and for how
--   long the oldest has been waiting behind the latest event of the log.
-- columns:
--   pool: pool
--   state: how far they got
--   nodes: nodes
--   oldest_session: session of the oldest
--   oldest_node: node of it
--   oldest_seconds: from its plan to the latest event in the log
WITH running AS MATERIALIZED (
    SELECT session FROM opened_events WHERE session NOT IN (SELECT session FROM closed_events)
), waiting AS (
    SELECT * FROM planned_events SEMI JOIN running USING (session) ANTI JOIN diagnosed_events USING (session, node)
), reached AS (
    SELECT session, node, arg_max(state, rank) AS state FROM step_events SEMI JOIN running USING (session) GROUP BY session, node
)
SELECT pool, coalesce(state, 'planned') AS state, count(*) AS nodes, arg_min(session, at_ns) AS oldest_session,
    arg_min(node, at_ns) AS oldest_node,
    ((SELECT max(at_ns) FROM events WHERE seq = (SELECT max(seq) FROM events)) - min(at_ns)) / 1e9 AS oldest_seconds
FROM waiting LEFT JOIN reached USING (session, node)
GROUP BY ALL ORDER BY nodes DESC, pool, state
