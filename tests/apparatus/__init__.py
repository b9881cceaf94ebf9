"""Apparatus: load with an independent ledger, faults on the wire, and real processes, for tests and benchmarks."""
