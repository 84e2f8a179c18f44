-- title: Which author won what, and at what cost?
-- meaning: >-
--   Every author by model: how many nodes it wrote, what came of them, and what that cost. The generator costs nothing.
--   Requests of its sub-agents count as its own, those of other roles do not; cost_by_role tells them apart.
-- columns:
--   author: author, as users name it
--   model: model that was asked; '' for authors that ask none
--   sessions: sessions it wrote for
--   nodes: nodes it was given
--   correct: of them, right and timed
--   wins: of them, interval above 1
--   best_speedup: best of them, without what is too noisy to tell
--   sessions_won: sessions whose best kernel is its own, and a win
--   cost: US dollars; NULL if no price was known
--   cost_per_win: cost over wins; NULL if nothing was won
--   tokens: of requests and answers, caches included
--   cache_hit_rate: share of the requests' tokens that a cache gave
WITH spent AS (
    SELECT session, node, any_value(model) FILTER (agent = 'synthesizer') AS model, sum(cost) AS cost,
        sum(output_tokens) AS output_tokens,
        sum(input_tokens + cache_read_tokens + cache_write_tokens) AS prompt_tokens,
        sum(cache_read_tokens) AS cache_read_tokens
    FROM called_events WHERE agent NOT IN ('analyst', 'planner', 'distiller') GROUP BY session, node
)
SELECT if(planned.synthesizer = 'playbook', 'generator', planned.synthesizer) AS author,
    coalesce(spent.model, '') AS model,
    count(DISTINCT planned.session) AS sessions, count(*) AS nodes,
    count(*) FILTER (nodes.verdict = 'correct') AS correct,
    count(*) FILTER (nodes.speedup_low > 1) AS wins, max(nodes.speedup) FILTER (NOT nodes.noisy) AS best_speedup,
    count(*) FILTER (sessions.win AND sessions.best = planned.node) AS sessions_won,
    sum(spent.cost) AS cost,
    sum(spent.cost) / nullif(count(*) FILTER (nodes.speedup_low > 1), 0) AS cost_per_win,
    coalesce(sum(spent.prompt_tokens + spent.output_tokens), 0)::BIGINT AS tokens,
    sum(spent.cache_read_tokens) / nullif(sum(spent.prompt_tokens), 0) AS cache_hit_rate
FROM planned_events AS planned
LEFT JOIN nodes ON nodes.session = planned.session AND nodes.node = planned.node
LEFT JOIN sessions ON sessions.session = planned.session
LEFT JOIN spent ON spent.session = planned.session AND spent.node = planned.node
WHERE planned.intent NOT IN ('remeasure', 'dispatch')
GROUP BY planned.synthesizer, coalesce(spent.model, '')
ORDER BY wins DESC, best_speedup DESC NULLS LAST, author, model
