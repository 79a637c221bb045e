"""OTLP from other programs: readable spans are read, and invalid data does no harm."""

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
def test_an_invalid_span_does_not_affect_other_spans(document: Any, changes: dict[str, Any]) -> None:
    read_json(document)
    good, changed = otlp.span("good"), {**otlp.span("changed"), **changes}

    result = read_json({"resourceSpans": otlp.resource_spans(changed, good)})

    assert result.spans[-1].name == "good"
    assert len(result.spans) + len(result.problems) == 2


@given(
    ids=st.lists(st.tuples(*[st.integers(0, 5)] * 2), max_size=8),
    attributes=st.lists(st.tuples(st.text(max_size=3), _JSON), max_size=3),
)
def test_spans_form_a_tree_with_valid_values_whatever_their_parents(
    ids: list[tuple[int, int]], attributes: list[Any]
) -> None:
    spans = [otlp.tool("t", spanId=f"{own_id:016x}", parent=f"{parent_id:016x}") for own_id, parent_id in ids]
    for span in spans:
        span["attributes"] += [{"key": key, "value": value} for key, value in attributes]
    traces = Traces(opened=0.0)
    traces.begin()
    traces.add(otlp.resource_spans(*spans))

    found = [Span.model_validate(span) for span in traces.take({"turn": 0, "start": 0.0, "end": 1.0}).spans]

    parents = {span.id: span.parent_id for span in found}
    for span in found:
        steps, ancestor_id = 0, span.parent_id
        while ancestor_id in parents:
            ancestor_id, steps = parents[ancestor_id], steps + 1
            assert steps <= len(found)
        assert ancestor_id == "agent-0"


@given(st.binary(max_size=200))
def test_invalid_protobuf_is_reported_as_a_problem(data: bytes) -> None:
    pytest.importorskip("opentelemetry.proto")

    read_protobuf(data)
    (problem,) = read_protobuf(b"\xff" + data).problems

    assert problem == "an exporter sent protobuf that is not OTLP"


def test_ids_may_be_in_base64_as_in_the_json_form_of_protobuf() -> None:
    span = otlp.span("x", traceId="q6urq6urq6urq6urq6urqw==", spanId="AAAAAAAAAAE=")

    (parsed_span,) = read_json({"resource_spans": [{"scope_spans": [{"spans": [span]}]}]}).spans

    assert (parsed_span.trace_id, parsed_span.span_id, parsed_span.parent_id) == ("ab" * 16, "0000000000000001", None)
