"""Rules of ADK for eval sets, and problems as text."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple

from workbench.model.evalset import PERSONAS
from workbench.model.facts import Fact
from workbench.model.text import shorten
from workbench.store.errors import StoreError, shown_path
from workbench.store.evalsets.case_frame import DocumentFormat, describe_value
from workbench.store.json.json_path import (
    ADK_TYPES,
    EVENT_FIELDS,
    FLAT_FIELDS,
    AdkType,
    Place,
    find_key,
    find_repeated_keys,
    to_snake,
)

# Problems, as reported by `validate` and open documents

_MOST_SHOWN = 20
_LONGEST_MESSAGE = 600
"""Maximum length in characters: messages repeat keys and values of the file."""

Severity = Literal["error", "warning"]


class FileProblem(Fact):
    """One problem of a file.

    An error prevents the file or a case from running here or in ADK; a warning is a probable mistake. `rule` is a short
    name that is stable between versions; `line` and `column` count characters from 1. `case` is the index of the
    affected case, None for the whole file. `stops_case`: the case cannot run here.
    """

    path: Path | str
    rule: str
    message: str
    severity: Severity = "error"
    place: str = ""
    line: int | None = None
    column: int | None = None
    case: int | None = None
    stops_case: bool = False

    def __str__(self) -> str:
        where = shown_path(self.path) + (f":{self.line}:{self.column}" if self.line is not None else "")
        return ": ".join(part for part in (where, self.severity, self.place, self.message) if part)

    @classmethod
    def of_error(
        cls,
        error: StoreError,
        *,
        rule: str,
        severity: Severity = "error",
        message: str | None = None,
        case: int | None = None,
        stops_case: bool = False,
    ) -> FileProblem:
        """Make the problem of an error; `message` replaces its own text."""
        return cls(
            path=error.path,
            rule=rule,
            severity=severity,
            place=error.place,
            line=error.line,
            column=error.column,
            message=error.message if message is None else shorten(message, _LONGEST_MESSAGE),
            case=case,
            stops_case=stops_case,
        )


def first_of_each_kind(problems: Iterable[FileProblem]) -> Iterator[str]:
    """Yield a line for each problem: the first twenty of each kind in a file, then the number of further ones."""
    counts: Counter[tuple[Path | str, Severity, str]] = Counter()
    for problem in problems:
        kind = (problem.path, problem.severity, problem.rule)
        counts[kind] += 1
        if counts[kind] <= _MOST_SHOWN:
            yield str(problem)
    for (path, severity, rule), count in counts.items():
        if count > _MOST_SHOWN:
            yield f"{shown_path(path)}: {severity}: and {count - _MOST_SHOWN:,} more of the kind {rule}"


def format_problems(problems: Iterable[FileProblem]) -> list[str]:
    """Return lines of problems of a file: the first twenty, the number of others, and a command that lists them."""
    found = list(problems)
    lines = [str(problem) for problem in found[:_MOST_SHOWN]]
    more = len(found) - _MOST_SHOWN
    if more > 0:
        name = shown_path(found[0].path)
        lines.append(f"{name}: {more:,} more (`workbench eval-set validate {shlex.quote(name)}` lists more of them)")
    return lines


# Data that ADK would refuse or drop: the data are compared with `ADK_TYPES`

_SCALARS = ("text", "number")


class AdkFinding(NamedTuple):
    """A fault by the rules of ADK: `place` is relative to the checked value, `rule` is a short stable name."""

    rule: str
    severity: Severity
    place: Place
    message: str


def check_type(data: Any, name: str, place: Place = ()) -> Iterator[AdkFinding]:
    """Check data that ADK reads as one of its types."""
    if name.rstrip("?") in _SCALARS:
        if not _is_scalar(data, name):
            yield AdkFinding(
                "adk-type", "error", place, f"ADK expects a {name.rstrip('?')} here, found {describe_value(data)}"
            )
        return
    if name == "IntermediateResponse":
        yield from _check_response(data, place)
        return
    if name == "UserPersona" and isinstance(data, str):
        if data not in PERSONAS:
            known = ", ".join(sorted(PERSONAS))
            yield AdkFinding("unknown-persona", "error", place, f"ADK knows no persona {data!r}, only {known}")
        return
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from check_type(item, name, (*place, index))
    elif isinstance(data, dict):
        name = _choose_intermediate_type(data) if name == "IntermediateData" else name
        yield from _check_object(data, name, ADK_TYPES[name], place)
    elif isinstance(data, str) and name == "FunctionCall":
        message = f"ADK expects an object with name and args here, found {describe_value(data)}"
        yield AdkFinding("adk-type", "error", place, message)


def _is_scalar(data: Any, name: str) -> bool:
    """True if ADK accepts a value as `text` or `number`; text of a number is a number."""
    if data is None:
        return name.endswith("?")
    if name.startswith("text"):
        return isinstance(data, str)
    if not isinstance(data, int | float | str):
        return False
    try:
        float(data)
    except (ValueError, OverflowError):
        return False
    return True


def check_case(data: Any, format: DocumentFormat = DocumentFormat.CURRENT) -> Iterator[AdkFinding]:
    """Check an eval case. A case of an old format must have its structure."""
    if format is not DocumentFormat.CURRENT:
        yield from _check_old_case(data, format)
        return
    yield from check_type(data, "EvalCase")
    if not isinstance(data, dict):
        return
    yield from _check_rubric_ids(data)
    session_input = get_by_key(data, "session_input")
    if isinstance(session_input, dict) and "state" in session_input and session_input["state"] is None:
        place = ("session_input", "state")
        yield AdkFinding("adk-type", "error", place, "ADK expects an object here, found null")


def check_keys(text: str) -> Iterator[AdkFinding]:
    """Find duplicate keys in the text of a case, header or other file: errors if their values differ.

    The text must be JSON, tolerantly read.
    """
    for place, loses_data in find_repeated_keys(text):
        if loses_data:
            message = (
                f"duplicate key {place[-1]!r} with different values; readers take the last one and drop the others"
            )
            yield AdkFinding("duplicate-key", "error", place, message)
        else:
            message = f"duplicate key {place[-1]!r}; its values are the same"
            yield AdkFinding("duplicate-key", "warning", place, message)


def check_set(header: Mapping[str, Any], cases_key: str) -> Iterator[AdkFinding]:
    """Check an eval set of the current format without its cases, whose list has the key `cases_key`."""
    for finding in check_type({**header, cases_key: []}, "EvalSet"):
        if finding.rule != "missing-key":  # the document itself reports a missing id
            yield finding
    eval_set_id = get_by_key(header, "eval_set_id")
    reason = _explain_wrong_set_id(eval_set_id) if isinstance(eval_set_id, str) else None
    if reason is not None:
        yield AdkFinding("set-id", "error", ("eval_set_id",), reason)


def _check_old_case(data: Any, format: DocumentFormat) -> Iterator[AdkFinding]:
    if format is DocumentFormat.LEGACY_EVALS and data.get("initial_state"):
        yield AdkFinding(
            "unknown-key", "warning", ("initial_state",), "ADK ignores initial_state; it reads initial_session"
        )
    turns, above = (data, ()) if format is DocumentFormat.LEGACY_TURNS else (data["data"], ("data",))
    for index, turn in enumerate(turns):
        for number, call in enumerate(turn.get("expected_tool_use") or ()):
            if "tool_input" not in call:
                place = (*above, index, "expected_tool_use", number)
                yield AdkFinding("missing-key", "error", place, "ADK requires tool_input in an expected_tool_use")


def _explain_wrong_set_id(eval_set_id: str) -> str | None:
    """Explain why ADK cannot handle a set with this id; None if it can."""
    if not eval_set_id:
        return "ADK expects an id that is not empty"
    if "/" in eval_set_id or "\\" in eval_set_id:
        return f"ADK cannot save the results of a set whose id has a path separator, found {eval_set_id!r}"
    if "\0" in eval_set_id or eval_set_id in (".", "..") or (eval_set_id[1:2] == ":" and eval_set_id[0].isalpha()):
        return f"ADK refuses {eval_set_id!r} as the name of a file"
    return None


def get_by_key(data: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key in either style; None if it is missing."""
    spelling = find_key(data, key, free=False)
    return None if spelling is None else data[spelling]


def find_nearest_key(key: str, known: Mapping[str, Any]) -> str | None:
    """Return the known key that a misspelt key probably means."""
    return next(iter(get_close_matches(to_snake(key), known, n=1, cutoff=0.75)), None)


def _check_object(data: dict[str, Any], name: str, kind: AdkType, place: Place) -> Iterator[AdkFinding]:
    present = set()
    for key, value in data.items():
        field = to_snake(key) if kind.reads_camel_case else key
        if field in kind.fields:
            present.add(field)
            if kind.fields[field]:
                yield from check_type(value, kind.fields[field], (*place, key))
        elif not kind.reads_camel_case and to_snake(key) in kind.fields:
            present.add(to_snake(key))
            is_missing = to_snake(key) in kind.required and to_snake(key) not in data
            severity: Severity = "error" if is_missing else "warning"
            message = f"ADK reads {to_snake(key)} only in snake_case in {name}"
            yield AdkFinding("camel-case", severity, (*place, key), message)
        else:
            yield from _check_unknown_key(key, name, kind, place)
    for field in sorted(kind.required - present):
        yield AdkFinding("missing-key", "error", place, f"ADK requires {field} in {name}")


def _check_unknown_key(key: str, name: str, kind: AdkType, place: Place) -> Iterator[AdkFinding]:
    near = find_nearest_key(key, kind.fields)
    hint = f" (did you mean {near}?)" if near else ""
    if name in ("InvocationEvents", "IntermediateData") and to_snake(key) in EVENT_FIELDS | FLAT_FIELDS:
        message = (
            f"ADK does not read {key} next to {'invocation_events' if name == 'InvocationEvents' else 'tool_uses'}"
        )
        yield AdkFinding("mixed-intermediate-data", "error", (*place, key), message)
    elif kind.unknown == "refused":
        yield AdkFinding("unknown-key", "error", (*place, key), f"ADK refuses the unknown key {key!r} in {name}{hint}")
    elif kind.unknown == "dropped" or near:
        does = "drops" if kind.unknown == "dropped" else "does not know"
        yield AdkFinding("unknown-key", "warning", (*place, key), f"ADK {does} the key {key!r} of {name}{hint}")


def _choose_intermediate_type(data: dict[str, Any]) -> str:
    return "InvocationEvents" if find_key(data, "invocation_events", free=False) else "IntermediateData"


def _check_response(data: Any, place: Place) -> Iterator[AdkFinding]:
    """Check `intermediate_responses`, which are pairs of an author and parts."""
    if not isinstance(data, list):
        yield AdkFinding("adk-type", "error", place, "ADK expects a list here, as intermediate_responses")
        return
    for index, pair in enumerate(data):
        if isinstance(pair, list) and len(pair) == 2:
            yield from check_type(pair[1], "Part", (*place, index, 1))
        else:
            message = f"ADK expects the pair [author, parts] here, found {describe_value(pair)}"
            yield AdkFinding("adk-type", "error", (*place, index), message)


def _check_rubric_ids(case: dict[str, Any]) -> Iterator[AdkFinding]:
    """Check for duplicate rubric ids. Rubrics of the case apply to every turn besides the turn's own; ADK stops a whole
    run at a duplicate id."""
    shared: set[Any] = set()
    yield from _find_repeated_rubrics(get_by_key(case, "rubrics"), shared, ("rubrics",))
    conversation = get_by_key(case, "conversation")
    for turn, invocation in enumerate(conversation if isinstance(conversation, list) else ()):
        if isinstance(invocation, dict):
            yield from _find_repeated_rubrics(
                get_by_key(invocation, "rubrics"), set(shared), ("conversation", turn, "rubrics")
            )


def _find_repeated_rubrics(rubrics: Any, seen: set[Any], place: Place) -> Iterator[AdkFinding]:
    for index, rubric in enumerate(rubrics if isinstance(rubrics, list) else ()):
        rubric_id = get_by_key(rubric, "rubric_id") if isinstance(rubric, dict) else None
        if not isinstance(rubric_id, str):
            continue
        if rubric_id in seen:
            message = f"duplicate rubric id {rubric_id!r} in one turn, which stops ADK's whole run"
            yield AdkFinding("duplicate-rubric", "error", (*place, index, "rubric_id"), message)
        seen.add(rubric_id)
