"""OTLP as others write it: whatever comes, what can be read is, and nothing else happens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents import otlp
from workbench.agents.worker.otlp import Traces, read_json, read_protobuf
from workbench.model.trace import Span

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_KEYS = st.sampled_from(
    ["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "stringValue", "arrayValue"]
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS | st.text(max_size=3), inner, max_size=3),
)
_FIELDS = st.sampled_from(
    [
        "traceId",
        "spanId",
        "parentSpanId",
        "name",
        "startTimeUnixNano",
        "endTimeUnixNano",
        "attributes",
        "status",
        "events",
    ]
)


@given(document=_JSON, changes=st.dictionaries(_FIELDS, _JSON, max_size=3))
def test_of_what_comes_a_bad_span_costs_itself_alone(document: Any, changes: dict[str, Any]) -> None:
    read_json(document)
    good, changed = otlp.span("good"), {**otlp.span("changed"), **changes}

    told = read_json({"resourceSpans": otlp.resource_spans(changed, good)})

    assert told.spans[-1].name == "good"
    assert len(told.spans) + len(told.problems) == 2


@given(
    ids=st.lists(st.tuples(*[st.integers(0, 5)] * 2), max_size=8),
    told=st.lists(st.tuples(st.text(max_size=3), _JSON), max_size=3),
)
def test_whatever_is_below_what_it_is_a_tree_with_fit_values(ids: list[tuple[int, int]], told: list[Any]) -> None:
    spans = [otlp.tool("t", spanId=f"{own:016x}", parent=f"{above:016x}") for own, above in ids]
    for span in spans:
        span["attributes"] += [{"key": key, "value": value} for key, value in told]
    traces = Traces(opened=0.0)
    traces.begin()
    traces.add(otlp.resource_spans(*spans))

    found = [Span.model_validate(span) for span in traces.take({"turn": 0, "start": 0.0, "end": 1.0}).spans]

    parents = {span.id: span.parent_id for span in found}
    for span in found:
        steps, here = 0, span.parent_id
        while here in parents:
            here, steps = parents[here], steps + 1
            assert steps <= len(found)
        assert here == "agent-0"


@given(st.binary(max_size=200))
def test_bytes_that_are_no_protobuf_are_said_to_be_none(data: bytes) -> None:
    pytest.importorskip("opentelemetry.proto")

    read_protobuf(data)
    (problem,) = read_protobuf(b"\xff" + data).problems

    assert problem == "an exporter sent protobuf that is not OTLP"


def test_ids_may_be_in_base_64_as_protobuf_has_them_in_json() -> None:
    span = otlp.span("x", traceId="q6urq6urq6urq6urq6urqw==", spanId="AAAAAAAAAAE=")

    (read,) = read_json({"resource_spans": [{"scope_spans": [{"spans": [span]}]}]}).spans

    assert (read.trace_id, read.span_id, read.parent_id) == ("ab" * 16, "0000000000000001", None)
