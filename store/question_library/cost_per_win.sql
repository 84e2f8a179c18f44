-- title: What does a win cost, by model?
-- meaning: >-
--   Tokens and money that sessions with a language model spent, over the sessions that ended with a confirmed win.
--   Prices are parameters. Tokens that were read from a cache count a tenth of an input token, tokens that were written to
--   one 1.25.
-- columns:
--   model: model
--   sessions: sessions that asked it
--   wins: of them, ended with a confirmed win
--   calls: requests
--   input_tokens: tokens of requests, caches included
--   output_tokens: tokens of answers
--   cost: in the currency of the prices
--   cost_per_win: NULL if nothing was won
-- parameters:
--   input_price:
--     default: 3.0
--     meaning: price of a million input tokens
--   output_price:
--     default: 15.0
--     meaning: price of a million output tokens
WITH asked AS (
    SELECT model, session, count(*) AS calls,
        sum(input_tokens + cache_read_tokens + cache_write_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
        (sum(input_tokens + 0.1 * cache_read_tokens + 1.25 * cache_write_tokens) * $input_price
            + sum(output_tokens) * $output_price) / 1e6 AS cost
    FROM called_events GROUP BY model, session
)
SELECT asked.model AS model, count(*) AS sessions, count(*) FILTER (win) AS wins, sum(calls)::BIGINT AS calls,
    sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens, sum(cost) AS cost,
    sum(cost) / nullif(count(*) FILTER (win), 0) AS cost_per_win
FROM asked LEFT JOIN sessions USING (session)
GROUP BY asked.model ORDER BY cost_per_win NULLS LAST, model
