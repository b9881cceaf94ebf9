-- Spans and log records as received, and the log of which trace got new ones.
-- Days of the receiving clock bound the partitions whatever the spans claim; retention drops them.

CREATE TABLE IF NOT EXISTS spans
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
ENGINE = ReplacingMergeTree(received_ns)
PARTITION BY (project, toYYYYMMDD(fromUnixTimestamp64Nano(received_ns, 'UTC')))
ORDER BY (project, trace_id, span_id)
SETTINGS index_granularity = 512, min_bytes_for_wide_part = 134217728, non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS logs
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
ENGINE = ReplacingMergeTree(received_ns)
PARTITION BY (project, toYYYYMMDD(fromUnixTimestamp64Nano(received_ns, 'UTC')))
ORDER BY (project, trace_id, span_id, time_ns, event_name, sequence, content_hash)
SETTINGS index_granularity = 2048, non_replicated_deduplication_window = 10000;

-- Append-only, in the order of writing: what came for a trace, and up to where its runs were assembled.
CREATE TABLE IF NOT EXISTS arrivals
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
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(noted_ns, 'UTC'))
ORDER BY (noted_ns, project, trace_id)
SETTINGS non_replicated_deduplication_window = 10000;
