-- title: Which skills helped?
-- meaning: >-
--   Candidates that used a skill, beside all other candidates of the same sessions. A skill helps if its candidates
--   are right more often, or faster.
-- columns:
--   skill: skill
--   candidates: candidates that used it
--   correct_share: of them, right
--   median_speedup: of the right ones
--   others_correct_share: the same of the sessions' other candidates
--   others_median_speedup: the same of the sessions' other candidates
WITH used AS MATERIALIZED (
    SELECT session, node, unnest(skills) AS skill FROM proposed_events WHERE len(skills) > 0
), judged AS MATERIALIZED (
    SELECT session, node, verdict, speedup FROM nodes SEMI JOIN (SELECT DISTINCT session FROM used) USING (session)
), others AS (
    SELECT session, count(*) AS nodes, count(*) FILTER (verdict = 'correct') AS correct, median(speedup) AS speedup
    FROM judged ANTI JOIN used USING (session, node) GROUP BY session
), beside AS (
    SELECT skill, sum(correct) / sum(nodes) AS share, median(speedup) AS speedup
    FROM (SELECT DISTINCT skill, session FROM used) JOIN others USING (session) GROUP BY skill
)
SELECT skill, count(*) AS candidates, avg((verdict = 'correct')::INT) AS correct_share, median(judged.speedup) AS median_speedup,
    any_value(beside.share) AS others_correct_share, any_value(beside.speedup) AS others_median_speedup
FROM used JOIN judged USING (session, node) LEFT JOIN beside USING (skill)
GROUP BY skill ORDER BY median_speedup DESC NULLS LAST, skill
