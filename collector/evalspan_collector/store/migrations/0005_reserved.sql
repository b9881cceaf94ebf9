-- What is set aside for a judge call while its cost is unknown: a worker that dies during a call leaves it behind.

ALTER TABLE judge_calls ADD COLUMN IF NOT EXISTS reserved_usd Nullable(Float64) CODEC(ZSTD(1));
