-- title: How did a node come about?
-- meaning: >-
--   A node and its ancestors, itself first, through forks into the sessions they came from; each with what it gained
--   over its parent.
-- columns:
--   depth: 0 for the node itself, 1 for its parent
--   session: session of the ancestor
--   node: ancestor
--   intent: what it was asked for
--   advice: what it was advised to try
--   state: how far it got
--   speedup: its speedup
--   gain: over its parent's
-- parameters:
--   session:
--     default: null
--     meaning: session of the node
--   node:
--     default: null
--     meaning: the node
WITH RECURSIVE way AS (
    SELECT $session AS session, $node AS node, 0 AS depth, 0 AS steps
    UNION ALL
    SELECT if(here.node IS NULL, opened.origin_session, way.session), if(here.node IS NULL, way.node, here.parent),
        if(here.node IS NULL, depth, depth + 1), steps + 1
    FROM way
    LEFT JOIN planned_events AS here ON here.session = way.session AND here.node = way.node
    LEFT JOIN opened_events AS opened ON opened.session = way.session
    WHERE if(here.node IS NULL, opened.origin_session IS NOT NULL, here.parent <> '') AND steps < 10000
), judged AS (
    SELECT session, node, arg_max_null(speedup, seq) AS speedup
    FROM diagnosed_events SEMI JOIN way USING (session, node) GROUP BY session, node
), reached AS (
    SELECT session, node, arg_max(state, rank) AS state FROM step_events SEMI JOIN way USING (session, node) GROUP BY session, node
)
SELECT depth, way.session AS session, way.node AS node, planned.intent, planned.advice, coalesce(reached.state, 'planned') AS state, speedup,
    speedup / lead(speedup) OVER (ORDER BY depth) AS gain
FROM way
JOIN planned_events AS planned ON planned.session = way.session AND planned.node = way.node
LEFT JOIN judged ON judged.session = way.session AND judged.node = way.node
LEFT JOIN reached ON reached.session = way.session AND reached.node = way.node
ORDER BY depth
