-- What people make: annotations, alerts, definitions, data sets, experiments, keys. Small tables.

CREATE TABLE IF NOT EXISTS annotations
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
ENGINE = ReplacingMergeTree(created_ns)
PARTITION BY project
ORDER BY (project, run_id, span_id, name, author)
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS alerts
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
ENGINE = ReplacingMergeTree(updated_ns)
PARTITION BY project
ORDER BY (project, alert)
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS alert_events
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
ENGINE = ReplacingMergeTree(written_ns)
PARTITION BY project
ORDER BY (project, event_id)
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS metrics_defs
(
    project LowCardinality(String),
    name String,
    metric_version String,
    created_ns Int64,
    definition String CODEC(ZSTD(1)),
    deleted Bool
)
ENGINE = ReplacingMergeTree(created_ns)
PARTITION BY project
ORDER BY (project, name, metric_version)
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS datasets
(
    project LowCardinality(String),
    dataset String,
    case_id String,
    created_ns Int64,
    run_id String,
    content String CODEC(ZSTD(1)),
    deleted Bool
)
ENGINE = ReplacingMergeTree(created_ns)
PARTITION BY project
ORDER BY (project, dataset, case_id)
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS experiments
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
ENGINE = ReplacingMergeTree(created_ns)
PARTITION BY project
ORDER BY (project, experiment, case_id, metric, attempt)
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS api_keys
(
    key_id String,
    project LowCardinality(String),
    name String,
    key_hash String COMMENT 'SHA-256 of the key, hexadecimal',
    created_ns Int64,
    revoked_ns Int64,
    written_ns Int64
)
ENGINE = ReplacingMergeTree(written_ns)
ORDER BY key_id
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS api_key_uses
(
    key_id String,
    used_ns Int64
)
ENGINE = ReplacingMergeTree(used_ns)
ORDER BY key_id
SETTINGS non_replicated_deduplication_window = 10000;
