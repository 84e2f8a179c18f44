-- title: Which policy searches best?
-- meaning: >-
--   Closed sessions by policy and author: wins, and the best speedup of a session in the median. Compare only
--   where the problems are the same.
-- columns:
--   policy: planner's policy
--   author: authors of the session, as users name them
--   problems: different problems
--   sessions: closed sessions
--   wins: of them, with a confirmed win
--   median_speedup: median of the sessions' best
--   candidates_per_win: candidates of all of them over wins
-- parameters:
--   problem:
--     default: '%'
--     meaning: problem, a pattern as in LIKE
SELECT policy, replace(synthesizer, 'playbook', 'generator') AS author, count(DISTINCT problem) AS problems,
    count(*) AS sessions, count(*) FILTER (win) AS wins, median(speedup) AS median_speedup,
    sum(candidates) / nullif(count(*) FILTER (win), 0) AS candidates_per_win
FROM sessions WHERE status = 'closed' AND problem ILIKE $problem
GROUP BY ALL ORDER BY median_speedup DESC NULLS LAST, policy, author
