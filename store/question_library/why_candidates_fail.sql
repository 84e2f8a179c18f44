-- title: Why do candidates fail?
-- meaning: >-
--   The most frequent reasons of failed steps, with numbers replaced by #, so that the same fault counts once.
-- columns:
--   role: agent that found it
--   verdict: verdict, where there is one
--   reason: "first line of the message, numbers as #"
--   failures: how often
--   sessions: in how many sessions
-- parameters:
--   platform:
--     default: '%'
--     meaning: platform of the pool (cpu, nvidia, amd), a pattern as in LIKE
--   most:
--     default: 50
--     meaning: reasons to list
SELECT role, verdict, regexp_replace(split_part(message, chr(10), 1), '[0-9]+', '#', 'g') AS reason,
    count(*) AS failures, count(DISTINCT session) AS sessions
FROM steps SEMI JOIN (SELECT session FROM sessions WHERE coalesce(platform, '') ILIKE $platform) USING (session)
WHERE failed
GROUP BY ALL ORDER BY failures DESC, role, reason LIMIT $most
