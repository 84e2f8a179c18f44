-- Sessions' opening events.
SELECT seq, session, pool, at_ns,
    b.problem.name                  AS problem,
    b.problem.sha256                AS problem_sha256,
    b.facts.operators               AS operators,
    b.facts.dtype                   AS dtype,
    b.hardware.device               AS device,
    b.pool.platform                 AS platform,
    b.budget, b.minutes, b.target, b.seed, b.policy, b.synthesizer, b.model, b.language,
    b.origin.session                AS origin_session,
    b.origin.node                   AS origin_node,
    coalesce(b.seeds, [])           AS seeds,
    list_transform(coalesce(b.skills, []), lambda one: one.id) AS skills,
    b.version,
    coalesce(b.against, 'best')     AS win_against,
    if(b.pool.platform <> 'cpu', coalesce(b.measure, 'device'), NULL) AS measure
FROM (
    SELECT *, json_transform(body, '{
        "problem": {"name": "VARCHAR", "sha256": "VARCHAR"}, "hardware": {"device": "VARCHAR"},
        "facts": {"operators": ["VARCHAR"], "dtype": "VARCHAR"}, "pool": {"platform": "VARCHAR"},
        "budget": "BIGINT", "seed": "BIGINT", "policy": "VARCHAR", "minutes": "DOUBLE", "target": "DOUBLE",
        "synthesizer": "VARCHAR", "model": "VARCHAR", "language": "VARCHAR", "seeds": ["VARCHAR"],
        "skills": [{"id": "VARCHAR"}], "origin": {"session": "VARCHAR", "node": "VARCHAR"}, "version": "VARCHAR",
        "against": "VARCHAR", "measure": "VARCHAR"}') AS b
    FROM events WHERE tag = 'session.opened.v1'
)
