-- title: Why do sessions end?
-- meaning: >-
--   Reasons of closed searches, and how many are open. Sessions that only judge a file (`evaluate`) are left out.
-- columns:
--   reason: why it ended, or open
--   sessions: sessions
--   wins: of them, with a confirmed win
--   median_seconds: how long they took, in the median
--   median_candidates: candidates, in the median
SELECT coalesce(reason, 'open') AS reason, count(*) AS sessions, count(*) FILTER (win) AS wins, median(seconds) AS median_seconds,
    median(candidates) AS median_candidates
FROM sessions WHERE kind <> 'evaluation' GROUP BY ALL ORDER BY sessions DESC, reason
