CREATE TABLE IF NOT EXISTS spans_local ON CLUSTER 'prod'
(
    project LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    parent_id String CODEC(ZSTD(1)),
    name String CODEC(ZSTD(1)),
    start_ns UInt64 CODEC(Delta(8), ZSTD(1)),
    end_ns UInt64 CODEC(Delta(8), ZSTD(1)),
    received_ns Int64 CODEC(Delta(8), ZSTD(1)),
    otel_kind UInt8 CODEC(ZSTD(1)),
    span_flags UInt32 CODEC(ZSTD(1)),
    status LowCardinality(String),
    status_message String CODEC(ZSTD(1)),
    scope_name LowCardinality(String),
    scope_version LowCardinality(String),
    service_name LowCardinality(String),
    service_version LowCardinality(String),
    service_instance_id String CODEC(ZSTD(1)),
    environment LowCardinality(String),
    dialect LowCardinality(String),
    kind LowCardinality(String),
    operation LowCardinality(String),
    agent_name LowCardinality(String),
    tool_name LowCardinality(String),
    tool_type LowCardinality(String),
    tool_call_id String CODEC(ZSTD(1)),
    tool_arguments String CODEC(ZSTD(1)),
    tool_result String CODEC(ZSTD(1)),
    failed Int8 CODEC(ZSTD(1)) COMMENT '1 failed, 0 not failed, -1 unsaid',
    error_type LowCardinality(String),
    error_message String CODEC(ZSTD(1)),
    model_request LowCardinality(String),
    model_response LowCardinality(String),
    provider LowCardinality(String),
    response_id String CODEC(ZSTD(1)),
    input_tokens Nullable(Int64) CODEC(ZSTD(1)),
    output_tokens Nullable(Int64) CODEC(ZSTD(1)),
    cost_carried Nullable(Float64) CODEC(ZSTD(1)),
    content LowCardinality(String),
    input_messages String CODEC(ZSTD(1)),
    output_messages String CODEC(ZSTD(1)),
    system_prompt String CODEC(ZSTD(1)),
    tool_definitions String CODEC(ZSTD(1)),
    input_value String CODEC(ZSTD(1)),
    output_value String CODEC(ZSTD(1)),
    session_id String CODEC(ZSTD(1)),
    user_id String CODEC(ZSTD(1)),
    flags Array(LowCardinality(String)),
    attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    extra String CODEC(ZSTD(1)) COMMENT 'JSON object of the rarer fields, and under "" the columns that hold an empty text rather than nothing',
    started_at DateTime64(9, 'UTC') ALIAS fromUnixTimestamp64Nano(toInt64(least(start_ns, 9000000000000000000)), 'UTC'),
    duration_ns UInt64 ALIAS if(end_ns > start_ns, end_ns - start_ns, 0),
    INDEX trace_id_index trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/spans', '{replica}', received_ns)
PARTITION BY (project, toYYYYMMDD(fromUnixTimestamp64Nano(received_ns, 'UTC')))
ORDER BY (project, trace_id, span_id)
SETTINGS index_granularity = 512, min_bytes_for_wide_part = 134217728, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS spans ON CLUSTER 'prod' AS spans_local
ENGINE = Distributed('prod', 'evalspan', 'spans_local', cityHash64(trace_id));

CREATE TABLE IF NOT EXISTS logs_local ON CLUSTER 'prod'
(
    project LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    time_ns UInt64 CODEC(Delta(8), ZSTD(1)),
    sequence Int64 CODEC(ZSTD(1)),
    received_ns Int64 CODEC(Delta(8), ZSTD(1)),
    event_name LowCardinality(String),
    body Nullable(String) CODEC(ZSTD(1)),
    attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    scope_name LowCardinality(String),
    service_name LowCardinality(String),
    service_instance_id String CODEC(ZSTD(1)),
    content_hash UInt64 MATERIALIZED cityHash64(ifNull(body, ''), toString(attributes)) CODEC(ZSTD(1)),
    INDEX trace_id_index trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/logs', '{replica}', received_ns)
PARTITION BY (project, toYYYYMMDD(fromUnixTimestamp64Nano(received_ns, 'UTC')))
ORDER BY (project, trace_id, span_id, time_ns, event_name, sequence, content_hash)
SETTINGS index_granularity = 2048, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS logs ON CLUSTER 'prod' AS logs_local
ENGINE = Distributed('prod', 'evalspan', 'logs_local', cityHash64(trace_id));

CREATE TABLE IF NOT EXISTS arrivals_local ON CLUSTER 'prod'
(
    noted_ns Int64 CODEC(DoubleDelta, ZSTD(1)),
    project LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    run_id String CODEC(ZSTD(1)) COMMENT 'empty for spans and logs that came',
    first_received_ns Int64 CODEC(Delta(8), ZSTD(1)),
    last_received_ns Int64 CODEC(Delta(8), ZSTD(1)),
    spans UInt32 CODEC(ZSTD(1)),
    settled_ns Int64 CODEC(Delta(8), ZSTD(1)) COMMENT 'assembled up to this received_ns',
    open UInt8 CODEC(ZSTD(1)) COMMENT 'the run was written open',
    start_ns UInt64 CODEC(Delta(8), ZSTD(1)),
    end_ns UInt64 CODEC(Delta(8), ZSTD(1)),
    processes Array(LowCardinality(String)),
    session_ids Array(String) CODEC(ZSTD(1)),
    INDEX start_index start_ns TYPE minmax GRANULARITY 1,
    INDEX end_index end_ns TYPE minmax GRANULARITY 1
)
ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/evalspan/arrivals', '{replica}')
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(noted_ns, 'UTC'))
ORDER BY (noted_ns, project, trace_id)
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS arrivals ON CLUSTER 'prod' AS arrivals_local
ENGINE = Distributed('prod', 'evalspan', 'arrivals_local', cityHash64(trace_id));

CREATE TABLE IF NOT EXISTS runs_local ON CLUSTER 'prod'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/runs', '{replica}', updated_ns)
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(updated_ns, 'UTC')))
ORDER BY (project, run_id)
SETTINGS index_granularity = 256, deduplicate_merge_projection_mode = 'rebuild', replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS runs ON CLUSTER 'prod' AS runs_local
ENGINE = Distributed('prod', 'evalspan', 'runs_local', cityHash64(run_id));

CREATE TABLE IF NOT EXISTS steps_local ON CLUSTER 'prod'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/steps', '{replica}')
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(updated_ns, 'UTC')))
ORDER BY (project, run_id, updated_ns, step_index)
SETTINGS index_granularity = 2048, replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS steps ON CLUSTER 'prod' AS steps_local
ENGINE = Distributed('prod', 'evalspan', 'steps_local', cityHash64(run_id));

CREATE TABLE IF NOT EXISTS scores_local ON CLUSTER 'prod'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/scores', '{replica}', version)
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(created_ns, 'UTC')))
ORDER BY (project, run_id, metric, rule)
SETTINGS index_granularity = 256, deduplicate_merge_projection_mode = 'rebuild', replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS scores ON CLUSTER 'prod' AS scores_local
ENGINE = Distributed('prod', 'evalspan', 'scores_local', cityHash64(run_id));

CREATE TABLE IF NOT EXISTS outcomes_local ON CLUSTER 'prod'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/outcomes', '{replica}', created_ns)
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(created_ns, 'UTC')))
ORDER BY (project, run_id, rule, run_revision)
SETTINGS index_granularity = 256, deduplicate_merge_projection_mode = 'rebuild', replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS outcomes ON CLUSTER 'prod' AS outcomes_local
ENGINE = Distributed('prod', 'evalspan', 'outcomes_local', cityHash64(run_id));

CREATE TABLE IF NOT EXISTS judge_calls_local ON CLUSTER 'prod'
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
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/judge_calls', '{replica}', created_ns)
PARTITION BY (project, toYYYYMM(fromUnixTimestamp64Nano(created_ns, 'UTC')))
ORDER BY (project, call_id)
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS judge_calls ON CLUSTER 'prod' AS judge_calls_local
ENGINE = Distributed('prod', 'evalspan', 'judge_calls_local', cityHash64(run_id));

CREATE TABLE IF NOT EXISTS annotations_local ON CLUSTER 'prod'
(
    project LowCardinality(String),
    run_id String,
    span_id String,
    name LowCardinality(String),
    author String,
    created_ns Int64,
    value Nullable(Float64),
    label Nullable(String),
    comment String CODEC(ZSTD(1)),
    deleted Bool
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/annotations', '{replica}', created_ns)
PARTITION BY project
ORDER BY (project, run_id, span_id, name, author)
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS annotations ON CLUSTER 'prod' AS annotations_local
ENGINE = Distributed('prod', 'evalspan', 'annotations_local', cityHash64(run_id));

CREATE TABLE IF NOT EXISTS alerts_local ON CLUSTER 'prod'
(
    project LowCardinality(String),
    alert String,
    state LowCardinality(String),
    since_ns Int64,
    updated_ns Int64,
    value Nullable(Float64),
    sample UInt64,
    breaches UInt32,
    last_notified_ns Int64,
    notified_state LowCardinality(Nullable(String))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/alerts', '{replica}', updated_ns)
PARTITION BY project
ORDER BY (project, alert)
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS alerts ON CLUSTER 'prod' AS alerts_local
ENGINE = Distributed('prod', 'evalspan', 'alerts_local', cityHash64(project));

CREATE TABLE IF NOT EXISTS alert_events_local ON CLUSTER 'prod'
(
    project LowCardinality(String),
    alert String,
    event_id String,
    created_ns Int64,
    state LowCardinality(String),
    value Nullable(Float64),
    threshold Nullable(Float64),
    sample UInt64,
    reason String,
    delivered Bool,
    delivery_error Nullable(String),
    written_ns Int64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/alert_events', '{replica}', written_ns)
PARTITION BY project
ORDER BY (project, event_id)
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS alert_events ON CLUSTER 'prod' AS alert_events_local
ENGINE = Distributed('prod', 'evalspan', 'alert_events_local', cityHash64(project));

CREATE TABLE IF NOT EXISTS metrics_defs_local ON CLUSTER 'prod'
(
    project LowCardinality(String),
    name String,
    metric_version String,
    created_ns Int64,
    definition String CODEC(ZSTD(1)),
    deleted Bool
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/metrics_defs', '{replica}', created_ns)
PARTITION BY project
ORDER BY (project, name, metric_version)
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS metrics_defs ON CLUSTER 'prod' AS metrics_defs_local
ENGINE = Distributed('prod', 'evalspan', 'metrics_defs_local', cityHash64(project));

CREATE TABLE IF NOT EXISTS datasets_local ON CLUSTER 'prod'
(
    project LowCardinality(String),
    dataset String,
    case_id String,
    created_ns Int64,
    run_id String,
    content String CODEC(ZSTD(1)),
    deleted Bool
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/datasets', '{replica}', created_ns)
PARTITION BY project
ORDER BY (project, dataset, case_id)
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS datasets ON CLUSTER 'prod' AS datasets_local
ENGINE = Distributed('prod', 'evalspan', 'datasets_local', cityHash64(project));

CREATE TABLE IF NOT EXISTS experiments_local ON CLUSTER 'prod'
(
    project LowCardinality(String),
    experiment String,
    case_id String,
    metric LowCardinality(String),
    attempt UInt32,
    created_ns Int64,
    dataset String,
    run_id String,
    value Nullable(Float64),
    passed Nullable(Bool),
    error Nullable(String),
    content String CODEC(ZSTD(1))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/experiments', '{replica}', created_ns)
PARTITION BY project
ORDER BY (project, experiment, case_id, metric, attempt)
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS experiments ON CLUSTER 'prod' AS experiments_local
ENGINE = Distributed('prod', 'evalspan', 'experiments_local', cityHash64(project));

CREATE TABLE IF NOT EXISTS api_keys_local ON CLUSTER 'prod'
(
    key_id String,
    project LowCardinality(String),
    name String,
    key_hash String COMMENT 'SHA-256 of the key, hexadecimal',
    created_ns Int64,
    revoked_ns Int64,
    written_ns Int64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/api_keys', '{replica}', written_ns)
ORDER BY key_id
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS api_keys ON CLUSTER 'prod' AS api_keys_local
ENGINE = Distributed('prod', 'evalspan', 'api_keys_local', cityHash64(key_id));

CREATE TABLE IF NOT EXISTS api_key_uses_local ON CLUSTER 'prod'
(
    key_id String,
    used_ns Int64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/evalspan/api_key_uses', '{replica}', used_ns)
ORDER BY key_id
SETTINGS replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS api_key_uses ON CLUSTER 'prod' AS api_key_uses_local
ENGINE = Distributed('prod', 'evalspan', 'api_key_uses_local', cityHash64(key_id));

ALTER TABLE runs_local ON CLUSTER 'prod' MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536;

ALTER TABLE steps_local ON CLUSTER 'prod' MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536;

ALTER TABLE scores_local ON CLUSTER 'prod' MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536;

ALTER TABLE outcomes_local ON CLUSTER 'prod' MODIFY SETTING min_compress_block_size = 8192, max_compress_block_size = 65536;

ALTER TABLE judge_calls_local ON CLUSTER 'prod' ADD COLUMN IF NOT EXISTS reserved_usd Nullable(Float64) CODEC(ZSTD(1));

ALTER TABLE judge_calls ON CLUSTER 'prod' ADD COLUMN IF NOT EXISTS reserved_usd Nullable(Float64) CODEC(ZSTD(1));
