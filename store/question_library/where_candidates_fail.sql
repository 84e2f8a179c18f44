-- title: Where do candidates fail?
-- meaning: >-
--   How far the nodes of a synthesizer got on a pool. A backend that loses most in compilation needs other help than
--   one that loses most in verification.
-- columns:
--   pool: pool
--   backend: synthesizer
--   state: last step reached, or the step that failed
--   verdict: verdict
--   nodes: nodes
--   share: of the backend's nodes on the pool
-- parameters:
--   pool:
--     default: '%'
--     meaning: pool, a pattern as in LIKE
WITH counted AS (
    SELECT pool, backend, state, coalesce(verdict, 'undiagnosed') AS verdict, count(*) AS nodes
    FROM nodes WHERE pool ILIKE $pool GROUP BY ALL
)
SELECT *, nodes / sum(nodes) OVER (PARTITION BY pool, backend) AS share
FROM counted ORDER BY pool, backend, nodes DESC, state, verdict
