-- One row per node and ancestor, the node itself at depth 0. A fork's first nodes go on into the session it came from.
WITH RECURSIVE edges AS (
    SELECT nodes.session, nodes.node, nodes.parent,
        if(own.node IS NULL, sessions.origin_session, nodes.session) AS parent_session
    FROM nodes
    LEFT JOIN nodes AS own ON own.session = nodes.session AND own.node = nodes.parent
    LEFT JOIN sessions ON sessions.session = nodes.session
    WHERE nodes.parent <> ''
), ancestry AS (
    SELECT session, node, session AS ancestor_session, node AS ancestor, 0 AS depth FROM nodes
    UNION ALL
    SELECT ancestry.session, ancestry.node, edges.parent_session, edges.parent, depth + 1
    FROM ancestry JOIN edges ON edges.session = ancestor_session AND edges.node = ancestor
    WHERE edges.parent_session IS NOT NULL AND depth < 10000
)
SELECT
    ancestry.session,
    ancestry.node,
    ancestry.depth,                  -- 0: the node itself, 1: its parent
    ancestry.ancestor_session,
    ancestry.ancestor,
    nodes.intent,                    -- of the ancestor, as all that follows
    nodes.state,
    nodes.verdict,
    nodes.fitness,
    nodes.speedup,
    nodes.summary,
    nodes.at_ns,
    nodes.at
FROM ancestry
LEFT JOIN nodes ON nodes.session = ancestor_session AND nodes.node = ancestor
