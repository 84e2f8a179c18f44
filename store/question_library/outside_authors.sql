-- title: What did outside authors bring?
-- meaning: >-
--   For every coding agent or person that handed candidates in: how many, how many of them were judged, right and
--   faster than the baseline. A file that was refused (a late or a double one) is handed in, not judged.
-- columns:
--   agent: name that the author gave itself
--   sessions: sessions that it handed something in to
--   hand_ins: files that it handed in
--   judged: of them, judged
--   correct: of these, right and timed
--   wins: of these, whose interval lies above 1
--   best_speedup: largest median speedup among the correct, without what is too noisy to tell
--   checks: drafts that it had checked
-- parameters:
--   problem:
--     default: '%'
--     meaning: problem, a pattern as in LIKE
WITH chosen AS (
    SELECT session FROM sessions WHERE problem ILIKE $problem
), leases AS (
    SELECT DISTINCT session, body->>'$.lease' AS lease, body->>'$.agent' AS agent
    FROM events SEMI JOIN chosen USING (session) WHERE tag = 'task.claimed.v1'
), submitted AS (
    SELECT leases.agent, events.session, events.id
    FROM events JOIN leases ON leases.session = events.session AND leases.lease = events.body->>'$.lease'
    WHERE events.tag = 'task.submitted.v1'
), judged AS (
    SELECT submitted.agent, submitted.session, nodes.verdict, nodes.speedup, nodes.noisy,
        coalesce(nodes.ordinary_low, nodes.speedup_low) > 1 AS win
    FROM submitted
    LEFT JOIN events AS proposed ON proposed.cause = submitted.id AND proposed.tag = 'candidate.proposed.v1'
    LEFT JOIN nodes ON nodes.session = proposed.session AND nodes.node = proposed.node
), checked AS (
    SELECT leases.agent, count(*) AS checks
    FROM events JOIN leases ON leases.session = events.session AND leases.lease = events.body->>'$.lease'
    WHERE events.tag = 'candidate.check_requested.v1' GROUP BY leases.agent
)
SELECT agent, count(DISTINCT session) AS sessions, count(*) AS hand_ins, count(verdict) AS judged,
    count(*) FILTER (verdict = 'correct') AS correct, count(*) FILTER (win) AS wins,
    max(speedup) FILTER (verdict = 'correct' AND NOT noisy) AS best_speedup, coalesce(any_value(checks), 0) AS checks
FROM judged LEFT JOIN checked USING (agent) GROUP BY agent ORDER BY wins DESC, correct DESC, agent
