-- What became of candidates in every step of the ring, synthesis included.
SELECT seq, session, pool, node, at_ns, worker,
    split_part(tag, '.', 2)         AS state,
    CASE tag
        WHEN 'candidate.proposed.v1' THEN 1
        WHEN 'candidate.compiled.v1' THEN 2
        WHEN 'candidate.verified.v1' THEN 3
        WHEN 'candidate.profiled.v1' THEN 4
        WHEN 'candidate.synthesis_failed.v1' THEN 5
        WHEN 'candidate.compilation_failed.v1' THEN 6
        WHEN 'candidate.verification_failed.v1' THEN 7
        ELSE 8
    END                             AS rank,
    coalesce(b.confirmation, false) AS confirmation,
    b.report.verdict                AS verdict,
    b.report.isolation              AS isolation,
    coalesce(b.report.cached, false) AS cached,
    b.report.seconds                AS seconds,
    coalesce(b.reason, b.report.evidence.message, b.report.diagnostics[1].message, '') AS message
FROM (
    SELECT *, CASE WHEN tag <> 'candidate.proposed.v1' THEN json_transform(body, '{
        "confirmation": "BOOLEAN", "reason": "VARCHAR", "report": {"verdict": "VARCHAR", "isolation": "VARCHAR",
            "seconds": "DOUBLE", "cached": "BOOLEAN", "evidence": {"message": "VARCHAR"},
            "diagnostics": [{"message": "VARCHAR"}]}}') END AS b
    FROM events WHERE tag IN ('candidate.proposed.v1', 'candidate.compiled.v1', 'candidate.verified.v1',
        'candidate.profiled.v1', 'candidate.synthesis_failed.v1', 'candidate.compilation_failed.v1',
        'candidate.verification_failed.v1', 'candidate.profiling_failed.v1')
)
