-- title: What is the best kernel of each problem on each device?
-- meaning: >-
--   The best of all wins by problem and device; `kernelswarm show SESSION --node NODE --source` prints its
--   file.
-- columns:
--   problem: problem
--   device: device
--   speedup: by the judge
--   speedup_low: low end of its interval
--   against: the baseline that counts for it
--   ordinary_speedup: in ordinary processes
--   call_speedup: on an accelerator as a call
--   session: session
--   node: node
-- parameters:
--   problem:
--     default: '%'
--     meaning: problem, a pattern as in LIKE
SELECT problem, device, speedup, speedup_low, against, ordinary_speedup, call_speedup, session, best AS node
FROM sessions WHERE win AND problem ILIKE $problem
QUALIFY row_number() OVER (PARTITION BY problem, device ORDER BY speedup_low DESC, session) = 1
ORDER BY speedup DESC, problem, device
