-- title: Can faults be repaired?
-- meaning: >-
--   Wrong nodes from which another was made: how often the next one was right, by what was wrong and who repaired.
-- columns:
--   verdict: what was wrong
--   backend: synthesizer of the child
--   repairs: nodes made from such nodes
--   correct: of them, right
--   share: of them, right
--   median_speedup: speedup of the right ones
WITH judged AS MATERIALIZED (SELECT session, node, parent, verdict, speedup, backend FROM nodes)
SELECT parent.verdict, child.backend, count(*) AS repairs, count(*) FILTER (child.verdict = 'correct') AS correct,
    correct / repairs AS share, median(child.speedup) AS median_speedup
FROM judged AS child JOIN judged AS parent ON parent.session = child.session AND parent.node = child.parent
WHERE parent.verdict <> 'correct'
GROUP BY ALL ORDER BY repairs DESC, parent.verdict, child.backend
