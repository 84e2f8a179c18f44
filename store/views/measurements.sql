-- One row per implementation in a timing run: the candidate and every baseline, with the raw samples.
--   event: id of the event that reported the run
--   session: session of the candidate
--   pool: pool of the session
--   node: node of the candidate
--   worker: worker that timed, host.pid.role.n
--   confirmation: whether it was the longer run of a finalist
--   ordinary: whether it was timed in ordinary processes, else by the judge's interleaved benchmark; on an accelerator these are call and device
--   shape: name of the timed shape where the problem has several; NULL for the only one, and for the mean of several
--   series: eager, compile, max_autotune or candidate; best_per_shape in a mean where the best differs between shapes
--   best: whether it is the fastest baseline of this run
--   median_ms: median time of one call, milliseconds
--   speedup_low: low end of the 95 % interval of the candidate's speedup against this series
--   speedup: the candidate's median speedup against this series, as ordinary says how; NULL for the candidate
--   speedup_high: high end of that interval
--   rounds: samples taken
--   calls: calls that one sample is the mean of
--   noise: distance between the quartiles of the samples over their median; 0.02 is quiet
--   samples_ns: time of one call in each round, nanoseconds; sample i of every series is of round i; none for a mean
--   verdict: correct, or why the candidate could not be timed
--   floor_ms: least time of any implementation on this machine, milliseconds; NULL in ordinary processes
--   roofline_fraction: floor over the candidate's median; NULL for baselines
--   roofline_limit: memory or compute: where the floor comes from
--   counters: hardware counters of the candidate, where there are any
--   isolation: isolation that was in force; NULL in ordinary processes
--   seconds: time of the whole run, seconds
--   at_ns: when it was reported, nanoseconds since the epoch
--   at: when it was reported, UTC
SELECT
    events.id                                 AS event,
    series.session,
    series.pool,
    series.node,
    series.worker,
    series.confirmation,
    series.ordinary,
    series.shape,
    series.series,
    series.best,
    series.median_ms,
    series.speedup_low,
    series.speedup,
    series.speedup_high,
    series.rounds,
    series.calls,
    series.noise,
    coalesce(CASE
        WHEN series.shape IS NULL AND series.ordinary THEN
            json_transform(events.body, '{"report": {"ordinary": {"series": [{"samples_ns": ["BIGINT"]}]}}}')
                .report.ordinary.series[series.place].samples_ns
        WHEN series.shape IS NULL THEN
            json_transform(events.body, '{"report": {"timing": {"series": [{"samples_ns": ["BIGINT"]}]}}}')
                .report.timing.series[series.place].samples_ns
        WHEN series.ordinary THEN
            json_transform(events.body,
                '{"report": {"ordinary": {"shapes": [{"timing": {"series": [{"samples_ns": ["BIGINT"]}]}}]}}}')
                .report.ordinary.shapes[series.shape_place].timing.series[series.place].samples_ns
        ELSE
            json_transform(events.body,
                '{"report": {"timing": {"shapes": [{"timing": {"series": [{"samples_ns": ["BIGINT"]}]}}]}}}')
                .report.timing.shapes[series.shape_place].timing.series[series.place].samples_ns
    END, [])                                  AS samples_ns,
    series.verdict,
    series.floor_ms,
    series.roofline_fraction,
    series.roofline_limit,
    series.counters,
    series.isolation,
    series.seconds,
    series.at_ns,
    make_timestamp(series.at_ns // 1000)      AS at
FROM series_events AS series
JOIN events ON events.seq = series.seq AND events.tag IN ('candidate.profiled.v1', 'candidate.profiling_failed.v1')
