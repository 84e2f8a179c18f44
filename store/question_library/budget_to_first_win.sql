-- title: How much budget does the first win take?
-- meaning: >-
--   Candidates planned until the first one whose interval was above 1, by problem and author, over the sessions
--   that had one.
-- columns:
--   problem: problem
--   author: authors of the session, as users name them
--   sessions: sessions
--   with_win: of them, with a winning candidate
--   median_candidates: candidates until the first win, in the median
--   p90_candidates: 90th percentile
--   median_seconds: seconds until then, in the median
WITH won AS (
    SELECT session, node, min(at_ns) AS at_ns FROM diagnosed_events WHERE speedup_low > 1 AND NOT confirmation GROUP BY session, node
), first AS (
    SELECT session, arg_min(number, won.at_ns) AS number, min(won.at_ns) AS at_ns
    FROM won JOIN planned_events USING (session, node) GROUP BY session
)
SELECT problem, replace(synthesizer, 'playbook', 'generator') AS author, count(*) AS sessions, count(first.session) AS with_win,
    median(number) AS median_candidates, quantile_cont(number, 0.9) AS p90_candidates,
    median((first.at_ns - opened_events.at_ns) / 1e9) AS median_seconds
FROM opened_events LEFT JOIN first USING (session)
GROUP BY ALL ORDER BY median_candidates NULLS LAST, problem, author
