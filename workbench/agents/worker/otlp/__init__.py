"""Spans of OpenTelemetry that agents in other processes tell of: inside their answers, or through an exporter.

`reading` understands OTLP, as JSON and as protobuf; `receiver` is an endpoint on this machine that exporters send to;
`traces` says which of what came belongs to which turn of a conversation.
"""
