"""Receiver: OTLP in over gRPC and HTTP, answered only once it is durable."""

__all__: list[str] = []
