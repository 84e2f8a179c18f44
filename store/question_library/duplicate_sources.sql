-- title: Which sources were proposed more than once?
-- meaning: >-
--   Files that were proposed again, byte for byte. Within one session that wastes budget; across sessions of a problem
--   it means that the earlier result was not used.
-- columns:
--   sha256: hash of the source
--   proposed: how often
--   sessions: in how many sessions
--   author: author, as users name it
--   first_session: where it was first
--   first_node: node there
--   best_speedup: best that was measured of it
-- parameters:
--   most:
--     default: 50
--     meaning: sources to list
WITH twins AS (
    SELECT sha256, count(*) AS proposed FROM proposed_events GROUP BY sha256 HAVING count(*) > 1
), judged AS (
    SELECT session, node, max(speedup) AS speedup FROM diagnosed_events GROUP BY session, node
)
SELECT sha256, any_value(twins.proposed) AS proposed, count(DISTINCT session) AS sessions,
    replace(any_value(backend), 'playbook', 'generator') AS author, arg_min(session, seq) AS first_session, arg_min(node, seq) AS first_node, max(speedup) AS best_speedup
FROM (FROM proposed_events SEMI JOIN twins USING (sha256)) JOIN twins USING (sha256) LEFT JOIN judged USING (session, node)
GROUP BY sha256 ORDER BY proposed DESC, sha256 LIMIT $most
