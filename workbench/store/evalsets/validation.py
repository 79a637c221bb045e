"""Validation of eval sets and the files beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workbench.store.errors import StoreError, shown_path
from workbench.store.evalsets.adk_rules import AdkFinding, FileProblem, Severity, check_keys, check_type, get_by_key
from workbench.store.evalsets.case_frame import DocumentFormat, NotAnEvalSet
from workbench.store.evalsets.case_reader import CaseFault
from workbench.store.evalsets.config_files import JsonFile, parse_config, read_json
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.new_evalsets import read_scenarios, read_session_input
from workbench.store.evalsets.quarantine import check_quarantines, find_orphans, find_sidecars
from workbench.store.files import CRITERIA_FILES, decode_utf8, is_eval_set, read_bytes, write_atomic
from workbench.store.json.json_path import find_key, format_place, get_position, get_positions
from workbench.store.json.json_text import BrokenJson, decode_tolerantly, find_constants, mask

# Files beside eval sets: configurations, scenario files, session inputs

_SIMULATORS = ("llm_backed", "llm_audio")


def check_other_file(path: Path, otherwise: StoreError) -> Iterator[FileProblem]:
    """Check a JSON file that is no eval set; `otherwise` is the error for an unknown type of file."""
    loaded = read_json(path)
    data = loaded.data
    try:
        if is_config(loaded):
            yield from check_config(loaded)
            return
        elif _has(data, "scenarios", "starting_prompt") or _has_first(data, "starting_prompt"):
            read_scenarios(path)
            kind = "ConversationScenarios" if _has(data, "scenarios") else "ConversationScenario"
            found = list(check_type(data, kind))
        elif _has(data, "app_name", "user_id"):
            read_session_input(path)
            found = list(check_type(data, "SessionInput"))
        else:
            raise otherwise
    except StoreError as error:
        yield FileProblem.of_error(error, rule="schema")
        return
    for finding in found:
        yield _make_problem(loaded, finding)
    for finding in check_keys(loaded.text):
        yield _make_problem(loaded, finding)


def is_config(loaded: JsonFile) -> bool:
    """True if a JSON file is a configuration, by its name or by its keys."""
    named = Path(loaded.path).name in CRITERIA_FILES and isinstance(loaded.data, dict)
    return named or _has(
        loaded.data, "criteria", "custom_metrics", "judge_metrics", "user_simulator_config", "live_model_config"
    )


def check_config(loaded: JsonFile) -> Iterator[FileProblem]:
    """Check a configuration by its format and by ADK's rules. Raises StoreError if it cannot be read."""
    parse_config(loaded)
    for finding in (*check_keys(loaded.text), *_check_config(loaded.data)):
        yield _make_problem(loaded, finding)


def _check_config(data: Any) -> Iterator[AdkFinding]:
    own = find_key(data, "judge_metrics", free=False)
    yield from check_type({key: value for key, value in data.items() if key != own}, "EvalConfig")
    if own is not None:
        message = "ADK does not read judge_metrics and cannot judge by criteria that use them"
        yield AdkFinding("own-key", "warning", (own,), message)
    criteria = get_by_key(data, "criteria")
    if not criteria:
        message = "no criteria: the default ones are used (tool_trajectory_avg_score 1.0, response_match_score 0.8)"
        yield AdkFinding("no-criteria", "warning", (), message)
    for name, criterion in (criteria or {}).items():
        if criterion is None or (isinstance(criterion, dict) and criterion.get("threshold") is None):
            message = "without a threshold the metric is informational here, and ADK refuses the file"
            yield AdkFinding("no-threshold", "warning", ("criteria", name), message)
    for name, metric in (get_by_key(data, "custom_metrics") or {}).items():
        place = (find_key(data, "custom_metrics", free=False) or "custom_metrics", name)
        if isinstance(metric, str):
            yield AdkFinding("adk-type", "warning", place, "ADK expects an object with code_config here")
        else:
            yield from check_type(metric, "CustomMetricConfig", place)
    simulator = get_by_key(data, "user_simulator_config") or {}
    kind = simulator.get("type", _SIMULATORS[0])
    if kind not in _SIMULATORS:
        place = (find_key(data, "user_simulator_config", free=False) or "user_simulator_config", "type")
        message = f"ADK knows no user simulator {kind!r}, only {' and '.join(_SIMULATORS)}"
        yield AdkFinding("unknown-simulator", "error", place, message)


def _has(data: Any, *keys: str) -> bool:
    return isinstance(data, dict) and any(find_key(data, key, free=False) is not None for key in keys)


def _has_first(data: Any, key: str) -> bool:
    return isinstance(data, list) and bool(data) and _has(data[0], key)


def _make_problem(loaded: JsonFile, finding: AdkFinding) -> FileProblem:
    line, column = loaded.position(finding.place)
    return FileProblem(
        path=loaded.path,
        rule=finding.rule,
        severity=finding.severity,
        message=finding.message,
        place=format_place(finding.place),
        line=line,
        column=column,
    )


# All files: faults here, faults in ADK, and JSON that is not strict

_BYTE_ORDER_MARK = "\ufeff"
_FILES = ("*.evalset.json", "*.test.json", CRITERIA_FILES[0])


def validate(
    paths: Sequence[Path], *, strict: bool = False, agent_of: Callable[[Path], str | None] | None = None
) -> list[FileProblem]:
    """Check files: eval sets, configurations, scenarios, session inputs. Folders are searched for them.

    An error prevents a file or case from running here or in ADK; a warning is a probable mistake. `strict` makes errors
    of comments, trailing commas and the like. `agent_of` returns the agent of a set: sets of one agent should have
    different ids. Never raises for the content of a file.
    """
    problems: list[FileProblem] = []
    first_with_id: dict[tuple[str | None, str], Path] = {}
    files = list(list_files(paths))
    for path in files:
        try:
            agent = None if agent_of is None else agent_of(path)
            problems += _check_file(path, first_with_id, strict=strict, agent=agent)
        except StoreError as error:
            problems.append(FileProblem.of_error(error, rule="unreadable"))
    return [*problems, *find_orphans(find_sidecars(files))]


def fix(path: Path) -> bool:
    """Remove comments and trailing commas from a file, and nothing else. Return True if there were any.

    Raises StoreError, also if the rest is not JSON; the file is not written then.
    """
    data, stamp = read_bytes(path)
    text = decode_utf8(path, data)
    mark, text = (_BYTE_ORDER_MARK, text[1:]) if text.startswith(_BYTE_ORDER_MARK) else ("", text)
    try:
        _, masked = decode_tolerantly(text)
    except BrokenJson as broken:
        line, column = get_position(text, broken.offset)
        raise StoreError(path, line=line, column=column, found=broken.found, expected=broken.expected) from broken
    if masked.is_strict:
        return False
    kept: list[str] = []
    position = 0
    for start, end in sorted((*masked.comments, *((comma, comma + 1) for comma in masked.trailing_commas))):
        kept.append(text[position:start])
        position = end
    kept.append(text[position:])
    write_atomic(path, (mark + "".join(kept)).encode(), expect=stamp)
    return True


def list_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files to validate: for each folder, the eval sets and files named `test_config.json` in it."""
    for path in paths:
        if not path.is_dir() or _is_folder_of_config(path):
            yield path
            continue
        there = {file for pattern in _FILES for file in path.rglob(pattern)}
        there = {file for file in there if not file.exists() or file.is_file() or _is_folder_of_config(file)}
        found = {file for file in there if is_eval_set(file)}
        yield from sorted(
            file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)
        )


def _is_folder_of_config(path: Path) -> bool:
    """True for a folder with the name of a criteria file. It is reported, because the default criteria would be
    used."""
    return path.name in CRITERIA_FILES and path.is_dir()


def _check_file(
    path: Path, first_with_id: dict[tuple[str | None, str], Path], *, strict: bool, agent: str | None
) -> Iterator[FileProblem]:
    data = read_bytes(path)[0]
    text = decode_utf8(path, data)
    yield from _check_strictness(path, text, strict=strict)
    if path.name in CRITERIA_FILES:  # a run reads it as a configuration, whatever its content
        try:
            yield from check_config(read_json(path))
        except StoreError as error:
            yield FileProblem.of_error(error, rule="schema")
        return
    try:
        document = EvalSetDocument(path, data, None)
    except StoreError as error:
        if not isinstance(error.__cause__, NotAnEvalSet):
            raise
        yield from check_other_file(path, error)
        return
    yield from document.errors
    yield from (problem for problem in document.adk_problems if problem.severity != "error")
    yield from check_quarantines(path, document)
    if document.format is DocumentFormat.CURRENT:
        yield from _check_set_id(document, first_with_id, agent=agent)
    else:
        message = "an old format: `workbench eval-set migrate` converts it to the current one"
        yield FileProblem(path=path, rule="old-format", severity="warning", message=message, line=1, column=1)


def _check_set_id(
    document: EvalSetDocument, first_with_id: dict[tuple[str | None, str], Path], *, agent: str | None
) -> Iterator[FileProblem]:
    eval_set_id = get_by_key(document.header, "eval_set_id")
    if not isinstance(eval_set_id, str):
        return
    other = first_with_id.setdefault((agent, eval_set_id), document.path)
    if other != document.path:
        message = f"duplicate set id {eval_set_id!r}, also in {shown_path(other)}; ADK cannot run both at once"
        placed = document.locate_header_fault(CaseFault(("eval_set_id",), "", ""))
        yield FileProblem.of_error(placed, rule="duplicate-set-id", severity="warning", message=message)


def _check_strictness(path: Path, text: str, *, strict: bool) -> Iterator[FileProblem]:
    """Find what only a tolerant reader accepts: all of it as errors if `strict`, else the first of each kind."""
    severity: Severity = "error" if strict else "warning"
    if text.startswith(_BYTE_ORDER_MARK):
        message = "not strict JSON: a byte order mark, which ADK cannot read; save the file as UTF-8 without it"
        yield FileProblem(path=path, rule="byte-order-mark", severity=severity, message=message, line=1, column=1)
        text = text[1:]
    masked = mask(text)
    found = [(start, "comment", "a comment") for start, _ in masked.comments]
    found += [(comma, "trailing-comma", "a trailing comma") for comma in masked.trailing_commas]
    constants = find_constants(masked.text) if strict else ()  # ADK reads them
    found += [(start, "not-a-number", f"{name}, which JSON does not allow") for start, name in constants]
    found.sort()
    counts = Counter(rule for _, rule, _ in found)
    if not strict:
        found = [next(each for each in found if each[1] == rule) for rule in counts]
    positions = get_positions(text, [offset for offset, _, _ in found])
    for (_, rule, what), (line, column) in zip(found, positions, strict=True):
        message = f"not strict JSON: {what}"
        if not strict:
            more = f" (and {counts[rule] - 1:,} more)" if counts[rule] > 1 else ""
            message += f"{more}, which ADK cannot read; --fix removes it"
        yield FileProblem(path=path, rule=rule, severity=severity, message=message, line=line, column=column)
