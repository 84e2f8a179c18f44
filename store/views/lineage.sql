-- One row per node and ancestor, the node itself at depth 0. The ancestors of a fork go on in the session that it was
-- forked from, up to the first.
--   session: session of the node
--   node: the node
--   depth: 0 for the node itself, 1 for its parent, and so on
--   ancestor_session: session of the ancestor, another one where a fork begins
--   ancestor: node of the ancestor
--   intent: what the ancestor was asked for
--   state: how far the ancestor got
--   verdict: verdict on the ancestor
--   fitness: fitness of the ancestor, as in nodes
--   speedup: speedup of the ancestor, by the judge, as in nodes
--   summary: diagnosis of the ancestor in one sentence
--   at_ns: when the ancestor was planned, nanoseconds since the epoch
--   at: when the ancestor was planned, UTC
WITH RECURSIVE ancestry AS (
    SELECT session, node, session AS ancestor_session, node AS ancestor, 0 AS depth, 0 AS steps FROM planned_events
    UNION ALL
    SELECT
        ancestry.session,
        ancestry.node,
        if(here.node IS NULL, opened.origin_session, ancestor_session),
        if(here.node IS NULL, ancestor, here.parent),
        if(here.node IS NULL, depth, depth + 1),
        steps + 1
    FROM ancestry
    LEFT JOIN planned_events AS here ON here.session = ancestor_session AND here.node = ancestor
    LEFT JOIN opened_events AS opened ON opened.session = ancestor_session
    WHERE if(here.node IS NULL, opened.origin_session IS NOT NULL, here.parent <> '') AND depth < 10000 AND steps < 20000
)
SELECT
    ancestry.session,
    ancestry.node,
    ancestry.depth,
    ancestry.ancestor_session,
    ancestry.ancestor,
    nodes.intent,
    nodes.state,
    nodes.verdict,
    nodes.fitness,
    nodes.speedup,
    nodes.summary,
    nodes.at_ns,
    nodes.at
FROM ancestry
JOIN nodes ON nodes.session = ancestor_session AND nodes.node = ancestor
