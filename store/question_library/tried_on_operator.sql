-- title: What has been tried on this operator?
-- meaning: >-
--   All sessions on problems that use an operator, by problem, device and synthesizer: how much was tried and what
--   came out best.
-- columns:
--   problem: problem
--   device: device
--   synthesizer: backend
--   sessions: sessions
--   candidates: files made or handed in, as in sessions
--   correct: of them, right and timed
--   wins: sessions with a confirmed win
--   best_speedup: best of all sessions, against the best baseline, without what is too noisy to tell
--   best_session: session of it
-- parameters:
--   operator:
--     default: '%'
--     meaning: an ATen operator or a problem, a pattern as in LIKE, like aten.mean%
--   platform:
--     default: '%'
--     meaning: platform of the pool (cpu, nvidia, amd), a pattern as in LIKE
SELECT problem, device, synthesizer, count(*) AS sessions, sum(candidates)::BIGINT AS candidates,
    sum(correct)::BIGINT AS correct, count(*) FILTER (win) AS wins, max(speedup) FILTER (NOT noisy) AS best_speedup,
    arg_max(session, speedup) FILTER (NOT noisy) AS best_session
FROM sessions
WHERE coalesce(platform, '') ILIKE $platform
    AND (problem ILIKE $operator OR len(list_filter(coalesce(operators, []), lambda one: one ILIKE $operator)) > 0)
GROUP BY ALL ORDER BY best_speedup DESC NULLS LAST, problem, device, synthesizer
