"""Validation of files: what keeps them from running here, what ADK would refuse, and what is no strict JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.store.documents.adk_rules import Finding, check_case, check_set_id, check_type, get
from workbench.store.documents.cases import Fault
from workbench.store.documents.evalset_document import EvalSetDocument
from workbench.store.documents.frame import DocumentFormat, NotAnEvalSet
from workbench.store.documents.jsontext import BrokenJson, decode_tolerantly, find_constants, mask
from workbench.store.documents.places import position_of
from workbench.store.documents.problems import Problem
from workbench.store.documents.repeated import repeated_keys
from workbench.store.documents.validating_others import problems_of_other_file
from workbench.store.errors import StoreError, shown_path
from workbench.store.files import decode_utf8, read_bytes, write_atomic
from workbench.store.recognising import is_eval_set

_BYTE_ORDER_MARK = "\ufeff"
_FILES = ("*.evalset.json", "*.test.json", "test_config.json")


def validate(paths: Sequence[Path], *, strict: bool = False) -> list[Problem]:
    """What is wrong with files: eval sets, configurations, scenarios, session inputs. Folders stand for what they hold.

    An error keeps a file or case from running here or in ADK; a warning says what is probably not meant. `strict` names
    comments, trailing commas and the like as errors too. Never raises for what is in a file.
    """
    problems: list[Problem] = []
    first_with_id: dict[str, Path] = {}
    for path in _files(paths):
        try:
            problems += _problems_of(path, first_with_id, strict=strict)
        except StoreError as error:
            problems.append(Problem.of_error(error, rule="unreadable"))
    return problems


def fix(path: Path) -> bool:
    """Remove comments and trailing commas from a file; every other byte stays. Gives whether there were any.

    Raises StoreError, also where the file is no JSON even so; it is not written then.
    """
    data, stamp = read_bytes(path)
    text = decode_utf8(path, data)
    mark, text = (_BYTE_ORDER_MARK, text[1:]) if text.startswith(_BYTE_ORDER_MARK) else ("", text)
    try:
        _, masked = decode_tolerantly(text)
    except BrokenJson as broken:
        line, column = position_of(text, broken.offset)
        raise StoreError(path, line=line, column=column, found=broken.found, expected=broken.expected) from broken
    if masked.strict:
        return False
    kept: list[str] = []
    position = 0
    for start, end in sorted((*masked.comments, *((comma, comma + 1) for comma in masked.trailing_commas))):
        kept.append(text[position:start])
        position = end
    kept.append(text[position:])
    write_atomic(path, (mark + "".join(kept)).encode(), expect=stamp)
    return True


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        there = {file for pattern in _FILES for file in path.rglob(pattern) if not file.exists() or file.is_file()}
        found = {file for file in there if is_eval_set(file)}
        yield from sorted(
            file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)
        )


def _problems_of(path: Path, first_with_id: dict[str, Path], *, strict: bool) -> Iterator[Problem]:
    data = read_bytes(path)[0]
    text = decode_utf8(path, data)
    yield from _not_strict(path, text, strict=strict)
    try:
        document = EvalSetDocument(path, data, None)
    except StoreError as error:
        if not isinstance(error.__cause__, NotAnEvalSet):
            raise
        yield from problems_of_other_file(path, error)
        return
    yield from document.problems
    for entry, case in zip(document.entries, document.pieces_of_cases(), strict=True):
        if entry.problem is not None:
            yield Problem.of_error(entry.problem, rule="schema" if case.broken is None else "broken-json")
    yield from _findings_in_cases(document)
    if document.format is DocumentFormat.CURRENT:
        yield from _problems_of_set(document, first_with_id)
    else:
        message = "an old format: `workbench eval-set migrate` writes it in the current one"
        yield Problem(path=path, rule="old-format", severity="warning", message=message, line=1, column=1)


def _problems_of_set(document: EvalSetDocument, first_with_id: dict[str, Path]) -> Iterator[Problem]:
    header = document.header
    for finding in check_type({**header, document.cases_key: []}, "EvalSet"):
        if finding.rule != "missing-key":  # a missing id is named already
            yield _placed_in_header(document, finding)
    eval_set_id = get(header, "eval_set_id")
    if not isinstance(eval_set_id, str):
        return
    reason = check_set_id(eval_set_id)
    if reason is not None:
        yield _placed_in_header(document, Finding("set-id", "error", ("eval_set_id",), reason))
    other = first_with_id.setdefault(eval_set_id, document.path)
    if other != document.path:
        message = f"the set id {eval_set_id!r} is that of {shown_path(other)} too, and ADK cannot run both at once"
        yield _placed_in_header(document, Finding("duplicate-set-id", "error", ("eval_set_id",), message))


def _findings_in_cases(document: EvalSetDocument) -> Iterator[Problem]:
    errors = document.case_errors()
    for index, piece in enumerate(document.pieces_of_cases()):
        if piece.broken is not None:
            continue
        data = document.raw_case(index)
        found = list(_check(data, document.format)) if piece.head.fault is None else []
        found += [
            Finding("duplicate-key", "warning", place, "the key stands twice in its object; only the last one counts")
            for place in repeated_keys(document.case_text(index))
        ]
        for finding in found:
            yield _problem(finding, errors.error(index, Fault(finding.place, "", "")))


def _check(data: Any, format: DocumentFormat) -> Iterator[Finding]:
    if format is DocumentFormat.CURRENT:
        yield from check_case(data)
        return
    if format is DocumentFormat.LEGACY_EVALS and data.get("initial_state"):
        yield Finding(
            "unknown-key", "warning", ("initial_state",), "ADK ignores initial_state; it reads initial_session"
        )
    turns, above = (data, ()) if format is DocumentFormat.LEGACY_TURNS else (data["data"], ("data",))
    for index, turn in enumerate(turns):
        for number, call in enumerate(turn.get("expected_tool_use") or ()):
            if "tool_input" not in call:
                place = (*above, index, "expected_tool_use", number)
                yield Finding("missing-key", "error", place, "ADK requires tool_input in an expected_tool_use")


def _not_strict(path: Path, text: str, *, strict: bool) -> Iterator[Problem]:
    """What of a text only a tolerant reader takes."""
    if text.startswith(_BYTE_ORDER_MARK):
        message = "not strict JSON: a byte order mark, which ADK cannot read"
        severity: Any = "error" if strict else "warning"
        yield Problem(path=path, rule="byte-order-mark", severity=severity, message=message, line=1, column=1)
        text = text[1:]
    if not strict:
        return
    masked = mask(text)
    found = [(start, "comment", "a comment") for start, _ in masked.comments]
    found += [(comma, "trailing-comma", "a trailing comma") for comma in masked.trailing_commas]
    found += [
        (start, "not-a-number", f"{name}, which is no number there") for start, name in find_constants(masked.text)
    ]
    for offset, rule, what in sorted(found):
        line, column = position_of(text, offset)
        yield Problem(path=path, rule=rule, message=f"not strict JSON: {what}", line=line, column=column)


def _placed_in_header(document: EvalSetDocument, finding: Finding) -> Problem:
    return _problem(finding, document.error_in_header(Fault(finding.place, "", "")))


def _problem(finding: Finding, placed: StoreError) -> Problem:
    return Problem.of_error(placed, rule=finding.rule, severity=finding.severity, message=finding.message)
