"""Store: spans, runs, scores and alerts in ClickHouse, embedded or on a server."""
