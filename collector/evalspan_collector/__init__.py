"""OTLP in, runs out, and the store that keeps them."""
