-- title: Which intent and which memory pay off?
-- meaning: >-
--   Nodes by what the planner asked for and what it let the synthesizer see: how many were right, and how they
--   compare with their parent.
-- columns:
--   intent: draft, improve or repair
--   memory: clean_slate, inherit, siblings or combine
--   nodes: nodes
--   correct_share: of them, right and timed
--   improved_share: of those with a timed parent, faster than it
--   median_speedup: median speedup against the best baseline
WITH judged AS MATERIALIZED (SELECT session, node, parent, intent, memory, verdict, speedup FROM nodes)
SELECT child.intent, child.memory, count(*) AS nodes, avg((child.verdict = 'correct')::INT) AS correct_share,
    avg((coalesce(child.speedup, 0) > parent.speedup)::INT) AS improved_share, median(child.speedup) AS median_speedup
FROM judged AS child LEFT JOIN judged AS parent ON parent.session = child.session AND parent.node = child.parent
GROUP BY ALL ORDER BY median_speedup DESC NULLS LAST, child.intent, child.memory
