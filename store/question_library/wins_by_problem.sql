-- title: What was won, by problem and pool?
-- meaning: >-
--   Closed sessions by problem and pool: how many ended with a confirmed win, and the best and the median speedup
--   against the best baseline.
-- columns:
--   problem: problem
--   pool: pool
--   sessions: closed sessions
--   wins: of them, with a confirmed win
--   best_speedup: best session's, without what is too noisy to tell
--   median_speedup: median of the sessions' best
--   best_session: session of the best
SELECT problem, pool, count(*) AS sessions, count(*) FILTER (win) AS wins, max(speedup) FILTER (NOT noisy) AS best_speedup,
    median(speedup) FILTER (NOT noisy) AS median_speedup, arg_max(session, speedup) FILTER (NOT noisy) AS best_session
FROM sessions WHERE status = 'closed'
GROUP BY ALL ORDER BY best_speedup DESC NULLS LAST, problem, pool
