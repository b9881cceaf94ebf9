-- Runs: one current row per run, its light steps, and what was found out about it.
-- A row's version is the store's time of writing, so a later revision always lies in the same or a later partition.
--
-- How current rows are read. A point read (one run, some runs) takes the newest row of the key. A window never needs
-- FINAL: a row about a run that started since T was written since an hour before T (`shown_start_ns` sees to it), and
-- so was every later row about that run. So the rows written since then, newest first, one by key, are the current
-- ones. The projections hold the narrow columns of these reads in the order of writing, so that a window costs what is
-- in it and not what is in the table.

CREATE TABLE IF NOT EXISTS runs
(
    project LowCardinality(String),
    run_id String CODEC(ZSTD(1)),
    updated_ns Int64 CODEC(Delta(8), ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    trace_ids Array(String) CODEC(ZSTD(1)),
    root_span_id String CODEC(ZSTD(1)),
    revision UInt32 CODEC(ZSTD(1)),
    state LowCardinality(String),
    agent LowCardinality(Nullable(String)),
    agents Array(LowCardinality(String)),
    session_id Nullable(String) CODEC(ZSTD(1)),
    user_id Nullable(String) CODEC(ZSTD(1)),
    service LowCardinality(Nullable(String)),
    environment LowCardinality(Nullable(String)),
    service_version LowCardinality(Nullable(String)),
    agent_version LowCardinality(Nullable(String)),
    started_ns Int64 CODEC(Delta(8), ZSTD(1)),
    duration_s Nullable(Float64) CODEC(ZSTD(1)),
    last_received_ns Int64 CODEC(Delta(8), ZSTD(1)),
    status LowCardinality(String),
    error Nullable(String) CODEC(ZSTD(1)),
    input Nullable(String) CODEC(ZSTD(1)),
    output Nullable(String) CODEC(ZSTD(1)),
    flags Array(LowCardinality(String)),
    tags Array(LowCardinality(String)),
    metadata String CODEC(ZSTD(1)) COMMENT 'JSON object',
    models Array(LowCardinality(String)),
    tool_names Array(LowCardinality(String)),
    input_tokens Nullable(Int64) CODEC(ZSTD(1)),
    output_tokens Nullable(Int64) CODEC(ZSTD(1)),
    cache_read_tokens Nullable(Int64) CODEC(ZSTD(1)),
    cache_write_tokens Nullable(Int64) CODEC(ZSTD(1)),
    reasoning_tokens Nullable(Int64) CODEC(ZSTD(1)),
    cost_usd Nullable(Float64) CODEC(ZSTD(1)),
    cost_unknown_calls UInt32 CODEC(ZSTD(1)),
    steps UInt32 CODEC(ZSTD(1)),
    dialects Array(LowCardinality(String)),
    stitch_confidence Nullable(Float64) CODEC(ZSTD(1)),
    fingerprint String CODEC(ZSTD(1)),
    started_at DateTime64(9, 'UTC') ALIAS fromUnixTimestamp64Nano(started_ns, 'UTC'),
    INDEX trace_ids_index trace_ids TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX session_index session_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX user_index user_id TYPE bloom_filter(0.01) GRANULARITY 1,
    run_key UInt128 MATERIALIZED reinterpretAsUInt128(sipHash128(project, run_id)) CODEC(NONE),
    PROJECTION by_writing
    (
        SELECT project, run_id, run_key, updated_ns, started_ns, state, revision, status, agent, session_id, user_id,
            service, environment, models, tool_names, flags, duration_s, input_tokens, output_tokens, cost_usd,
            cost_unknown_calls
        ORDER BY updated_ns
    )
)
ENGINE = ReplacingMergeTree(updated_ns)
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(updated_ns, 'UTC')))
ORDER BY (project, run_id)
SETTINGS index_granularity = 256, deduplicate_merge_projection_mode = 'rebuild', non_replicated_deduplication_window = 10000;

-- The steps of a revision carry its updated_ns; older revisions' steps match no current run.
CREATE TABLE IF NOT EXISTS steps
(
    project LowCardinality(String),
    run_id String CODEC(ZSTD(1)),
    updated_ns Int64 CODEC(Delta(8), ZSTD(1)),
    step_index UInt32 CODEC(ZSTD(1)),
    parent_index Nullable(UInt32) CODEC(ZSTD(1)),
    depth UInt16 CODEC(ZSTD(1)),
    kind LowCardinality(String),
    name LowCardinality(String),
    agent LowCardinality(Nullable(String)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    started_ns Int64 CODEC(Delta(8), ZSTD(1)),
    duration_s Nullable(Float64) CODEC(ZSTD(1)),
    failed UInt8 CODEC(ZSTD(1)),
    error Nullable(String) CODEC(ZSTD(1)),
    observed LowCardinality(String),
    attempt UInt16 CODEC(ZSTD(1)),
    pseudo UInt8 CODEC(ZSTD(1)),
    model LowCardinality(Nullable(String)),
    provider LowCardinality(Nullable(String)),
    input_tokens Nullable(Int64) CODEC(ZSTD(1)),
    output_tokens Nullable(Int64) CODEC(ZSTD(1)),
    cache_read_tokens Nullable(Int64) CODEC(ZSTD(1)),
    cache_write_tokens Nullable(Int64) CODEC(ZSTD(1)),
    reasoning_tokens Nullable(Int64) CODEC(ZSTD(1)),
    cost_usd Nullable(Float64) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(updated_ns, 'UTC')))
ORDER BY (project, run_id, updated_ns, step_index)
SETTINGS index_granularity = 2048, non_replicated_deduplication_window = 10000;

-- The current score is the newest (run_revision, created_ns): both are in the version.
CREATE TABLE IF NOT EXISTS scores
(
    project LowCardinality(String),
    run_id String CODEC(ZSTD(1)),
    metric LowCardinality(String),
    rule LowCardinality(String),
    version UInt128 CODEC(ZSTD(1)),
    run_revision UInt32 CODEC(ZSTD(1)),
    created_ns Int64 CODEC(Delta(8), ZSTD(1)),
    metric_version LowCardinality(String),
    value Nullable(Float64) CODEC(ZSTD(1)),
    threshold Nullable(Float64) CODEC(ZSTD(1)),
    passed Nullable(Bool) CODEC(ZSTD(1)),
    label Nullable(String) CODEC(ZSTD(1)),
    reason String CODEC(ZSTD(1)),
    error Nullable(String) CODEC(ZSTD(1)),
    not_applicable Bool CODEC(ZSTD(1)),
    evidence String CODEC(ZSTD(1)),
    extra String CODEC(ZSTD(1)),
    source LowCardinality(String),
    span_id Nullable(String) CODEC(ZSTD(1)),
    agent LowCardinality(Nullable(String)),
    run_started_ns Int64 CODEC(Delta(8), ZSTD(1)),
    duration_s Float64 CODEC(ZSTD(1)),
    judge_model LowCardinality(Nullable(String)),
    judge_input_tokens Nullable(Int64) CODEC(ZSTD(1)),
    judge_output_tokens Nullable(Int64) CODEC(ZSTD(1)),
    judge_cost_usd Nullable(Float64) CODEC(ZSTD(1)),
    superseded Bool CODEC(ZSTD(1)),
    score_key UInt128 MATERIALIZED reinterpretAsUInt128(sipHash128(project, run_id, metric, rule)) CODEC(NONE),
    PROJECTION by_writing
    (
        SELECT project, run_id, score_key, version, created_ns, run_started_ns, metric, rule, agent, value, passed, error,
            not_applicable, judge_cost_usd, superseded
        ORDER BY created_ns
    )
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(created_ns, 'UTC')))
ORDER BY (project, run_id, metric, rule)
SETTINGS index_granularity = 256, deduplicate_merge_projection_mode = 'rebuild', non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS outcomes
(
    project LowCardinality(String),
    rule LowCardinality(String),
    run_id String CODEC(ZSTD(1)),
    run_revision UInt32 CODEC(ZSTD(1)),
    created_ns Int64 CODEC(Delta(8), ZSTD(1)),
    outcome LowCardinality(String),
    rule_version LowCardinality(String),
    reason String CODEC(ZSTD(1)),
    attempt UInt32 CODEC(ZSTD(1)),
    run_started_ns Int64 CODEC(Delta(8), ZSTD(1)),
    PROJECTION by_writing
    (
        SELECT project, rule, run_id, run_revision, created_ns, outcome, rule_version
        ORDER BY created_ns
    )
)
ENGINE = ReplacingMergeTree(created_ns)
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(created_ns, 'UTC')))
ORDER BY (project, run_id, rule, run_revision)
SETTINGS index_granularity = 256, deduplicate_merge_projection_mode = 'rebuild', non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS judge_calls
(
    project LowCardinality(String),
    call_id String CODEC(ZSTD(1)),
    created_ns Int64 CODEC(Delta(8), ZSTD(1)),
    rule LowCardinality(String),
    metric LowCardinality(String),
    run_id String CODEC(ZSTD(1)),
    purpose LowCardinality(String),
    model LowCardinality(String),
    input_tokens Nullable(Int64) CODEC(ZSTD(1)),
    output_tokens Nullable(Int64) CODEC(ZSTD(1)),
    cost_usd Nullable(Float64) CODEC(ZSTD(1)),
    stop_reason LowCardinality(Nullable(String)),
    error Nullable(String) CODEC(ZSTD(1)),
    duration_s Float64 CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(created_ns)
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(created_ns, 'UTC')))
ORDER BY (project, call_id)
SETTINGS non_replicated_deduplication_window = 10000;
