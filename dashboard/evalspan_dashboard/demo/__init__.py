"""Demo: two sample agents on the real anthropic SDK, a scripted API server for them, and rules to score their runs."""
