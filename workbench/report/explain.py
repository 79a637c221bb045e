"""Why a case did not pass, in lines for people: what the verdict table, JUnit and Markdown say about it.

Every line is safe to print (no control characters) and has what looks like a secret removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any
from unicodedata import normalize

from workbench.model.results import Failure, FailureKind, MetricResult, MetricStatus
from workbench.model.text import mask_named, neutralise, one_line, redact
from workbench.report.differences import Difference, DifferenceKind, Path, name_at
from workbench.report.judging import failed_judging_lines, sample_lines, samples_text
from workbench.report.run_report import ReportedCase

_WIDTH = 200
"""Characters of one value in an explanation."""
_MOST_DIFFERENCES = 100
"""Differences of one case that are listed."""
_CONTEXT = 40
"""Characters shown of what two long values have in common before they part."""

_FRAME = re.compile(r'(?P<indent>[ |]*)File "(?P<path>.*)", line \d+, in ')
_LIBRARY = re.compile(r".*[/\\](?:(?:site|dist)-packages|[Ll]ib[/\\]python3[.\d]*t?)[/\\](?P<inside>.*)")

_ABOUT_CALLS = ("trajectory", "tool_call", "tool_use")
_ABOUT_RESPONSE = ("response_match", "rouge", "bleu", "exact_match")
_ABOUT_STATE = ("session_state", "final_state")


def explain(case: ReportedCase) -> list[str]:
    """What went wrong: the failure, each metric that did not pass, and what differed for it to say so."""
    failed = [metric for metric in case.judged if metric.status is MetricStatus.FAILED]
    differences = list(_difference_lines(case, failed)) if failed else []
    more = len(differences) - _MOST_DIFFERENCES
    left_out = [f"and {more:,} more differences, in the JSON report"] if more > 0 else []
    return [*reasons(case), *differences[:_MOST_DIFFERENCES], *left_out]


def reasons(case: ReportedCase) -> list[str]:
    """What went wrong without what differed, for places that show both sides themselves."""
    lines = list(_failure_lines(case))
    bad = [metric for metric in case.judged if metric.status is not MetricStatus.PASSED]
    if case.result.failure is not None:  # it is why they have no score
        bad = [metric for metric in bad if metric.status is not MetricStatus.UNDEFINED]
    lines += _metric_lines(bad)
    if not case.judged and case.result.failure is None:
        lines.append("no criterion gave a verdict: " + _nothing_evaluated(case))
    return [*lines, *map(safe, failed_judging_lines(case.judged))]


class ShownSetupFailures:
    """The setup failures shown so far: what an agent lacks, all its cases lack, and one of them shows it."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}  # by message

    def find(self, case: ReportedCase, place: str) -> str | None:
        """Return the place that shows the same setup failure; None if this is the first one, or no such failure."""
        failure = case.result.failure
        if failure is None or failure.kind is not FailureKind.SETUP:
            return None
        shown = self._places.setdefault(failure.message, place)
        return None if shown == place else shown


def explain_at_length(case: ReportedCase) -> list[str]:
    """What `explain` leaves out: tracebacks, and what the agent wrote to its standard streams, if anything."""
    failure, execution = case.result.failure, case.result.execution
    errors = [metric for metric in case.result.metrics if metric.status is MetricStatus.ERROR]
    blocks = [
        ("traceback", fold_library_frames(failure.traceback or "") if failure is not None else None),
        *((f"traceback of {safe(metric.name)}", folded_details(metric).get("traceback")) for metric in errors),
        ("stderr", (failure.stderr_tail if failure is not None else None) or execution.stderr_tail),
        ("stdout", execution.stdout_tail),
    ]
    lines: list[str] = []
    for title, text in blocks:
        if text and text.strip():
            lines.append(f"{title}:")
            lines += [f"  {line}" for line in redact(neutralise(text)).rstrip().split("\n")]
    return lines


def folded_details(metric: MetricResult) -> Mapping[str, Any]:
    """Return the details of a metric; the frames of libraries in the traceback of a custom one are folded."""
    traceback = metric.details.get("traceback")
    if not isinstance(traceback, str):
        return metric.details
    return {**metric.details, "traceback": fold_library_frames(traceback)}


def failure_texts(failure: Failure) -> Iterator[tuple[str, str]]:
    """What there is of its traceback, folded, and of what the agent wrote to stderr, each with its title."""
    texts = {"traceback": fold_library_frames(failure.traceback or ""), "stderr, its end": failure.stderr_tail or ""}
    return ((title, text.rstrip()) for title, text in texts.items() if text.strip())


def fold_library_frames(traceback: str) -> str:
    """The traceback with the frames of each row of libraries as one line. One without other frames stays whole."""
    lines: list[str] = []
    folded: list[str] = []  # the libraries of the frames that are being folded
    indent = ""
    has_others = False
    for line in traceback.split("\n"):
        frame = _FRAME.match(line)
        if frame is None and folded and line.startswith((indent + "  ", indent + "[Previous line")):  # its source
            continue
        library = None if frame is None else _library_of(frame["path"])
        if folded and (library is None or frame is None or frame["indent"] != indent):
            lines.append(_folded_line(indent, folded))
            folded = []
        if frame is not None and library is not None:
            indent = frame["indent"]
            folded.append(library)
        else:
            has_others = has_others or frame is not None
            lines.append(line)
    if folded:
        lines.append(_folded_line(indent, folded))
    return "\n".join(lines) if has_others else traceback


def _folded_line(indent: str, libraries: list[str]) -> str:
    count = len(libraries)
    return f"{indent}… {count} frame{'' if count == 1 else 's'} in {', '.join(dict.fromkeys(libraries))}"


def _library_of(path: str) -> str | None:
    """The library that a file belongs to, such as `google.adk`; None for the user's own."""
    found = _LIBRARY.fullmatch(path)
    if found is None:
        return None
    parts = re.split(r"[/\\]", found["inside"].removesuffix(".py"))
    return ".".join(parts[: 2 if parts[0] == "google" else 1])


def sample_lines_of(case: ReportedCase) -> list[str]:
    """What each sample of each judge said, a line each."""
    return [safe(line) for metric in case.result.metrics for line in sample_lines(metric)]


def describe_metric(metric: MetricResult) -> str:
    """One metric in one line: score against threshold, or why there is no score."""
    name = safe(metric.name)
    if metric.status is MetricStatus.ERROR or metric.score is None:
        return f"{name}: {_why_no_score(metric)}"
    against = ""
    if metric.threshold is not None:
        against = f" {relation(metric.score, metric.threshold)} {score_text(metric.threshold, metric.score)}"
    notes = [safe(note) for note in (metric.reason, metric.hint, samples_text(metric)) if note]
    counted = f" ({metric.scored} of {metric.total} turns scored)" if metric.scored < metric.total else ""
    score = score_text(metric.score, metric.threshold)
    return f"{name}: {score}{against}{counted}" + "".join(f"; {note}" for note in notes)


def _metric_lines(metrics: list[MetricResult]) -> Iterator[str]:
    """A line for each metric; those that have no score for the same reason share one."""
    groups: dict[str, list[MetricResult]] = {}
    for metric in metrics:
        has_score = metric.score is not None and metric.status is not MetricStatus.ERROR
        groups.setdefault(metric.name if has_score else _why_no_score(metric), []).append(metric)
    for reason, group in groups.items():
        yield describe_metric(group[0]) if len(group) == 1 else f"{safe(', '.join(m.name for m in group))}: {reason}"


def _why_no_score(metric: MetricResult) -> str:
    word = "could not be computed" if metric.status is MetricStatus.ERROR else "undefined"
    # What a custom function raised says already whose it was.
    return f"{word}: {safe((metric.reason or 'no reason given').removeprefix(f'{metric.name}: '))}"


def relation(score: float, threshold: float) -> str:
    """How the two numbers stand: whether that is good is the status's to say, as some metrics are better low."""
    return "<" if score < threshold else ">" if score > threshold else "="


def score_text(score: float, other: float | None = None) -> str:
    """A score with two digits, or as many (up to six) as it takes to tell it from `other`."""
    for digits in range(2, 7):
        text = f"{score:.{digits}f}"
        if other is None or score == other or text != f"{other:.{digits}f}":
            return text
    return repr(score)


def describe(difference: Difference) -> str:
    """One difference in one line, such as `set_device_info: device_id: expected "device_2", got "device_3"`."""
    tool = safe(difference.tool)
    path, name = f"{tool}: {path_text(difference.path)}", name_at(difference.path)
    match difference.kind:
        case DifferenceKind.CALL_MISSING:
            return f"missing call {_number(difference.expected_call)}: {_call(tool, difference.expected)}"
        case DifferenceKind.CALL_EXTRA:
            return f"unexpected call {_number(difference.actual_call)}: {_call(tool, difference.actual)}"
        case DifferenceKind.CALL_MOVED:
            places = f"expected as call {_number(difference.expected_call)}, made as call "
            return f"call out of order: {_call(tool, difference.expected)}: {places}{_number(difference.actual_call)}"
        case DifferenceKind.ARGUMENT_MISSING:
            return f"{path}: expected {value_text(difference.expected, name)}, got no such argument"
        case DifferenceKind.ARGUMENT_EXTRA:
            return f"{path}: unexpected argument {value_text(difference.actual, name)}"
        case DifferenceKind.ARGUMENT_CHANGED if not difference.path:
            wanted, given = _arguments(difference.expected), _arguments(difference.actual)
            return f"{tool}: expected {wanted}, got {given}"
        case DifferenceKind.ARGUMENT_CHANGED:
            return f"{path}: {_told_apart(difference)}"
        case DifferenceKind.STATE_CHANGED:
            return f"state {path_text(difference.path)}: {_told_apart(difference)}"
        case _:
            return _describe_words(difference)


def _describe_words(difference: Difference) -> str:
    """A difference in what was said: by the agent, a sub-agent or a tool."""
    missing = {
        DifferenceKind.INTERMEDIATE_MISSING: "expected {wanted}, said no such thing",
        DifferenceKind.INTERMEDIATE_EXTRA: "said {given}, which was not expected",
    }.get(difference.kind)
    if difference.kind is DifferenceKind.RESPONSE_CHANGED:
        missing = None if difference.actual is not None else "expected {wanted}, got no response"
        speaker = "response"
    elif difference.kind is DifferenceKind.TOOL_RESPONSE_CHANGED:
        speaker = f"response of {safe(difference.tool)}"
    else:
        speaker = safe(difference.tool)
    if missing is None:
        return f"{speaker}: {_told_apart(difference)}"
    told = missing.format(wanted=value_text(difference.expected), given=value_text(difference.actual))
    return f"{speaker}: {told}"


def value_text(value: Any, name: str = "") -> str:
    """A value as JSON on one line, cut if it is long. It is masked if `name`, its key, is that of a secret."""
    return safe(json.dumps(mask_named(value, name), ensure_ascii=False, default=repr))


def _told_apart(difference: Difference) -> str:
    wanted, given = both_texts(difference.expected, difference.actual, name_at(difference.path))
    return f"expected {wanted}, got {given}"


def both_texts(expected: Any, actual: Any, name: str = "") -> tuple[str, str]:
    """Two values that differ, as JSON on a line each; masked if `name`, their key, is that of a secret.

    Where they look the same (cut, or in characters that do), from where they part, and escaped.
    """
    wanted, given = value_text(expected, name), value_text(actual, name)
    if normalize("NFC", wanted) == normalize("NFC", given):
        texts = [redact(json.dumps(mask_named(value, name), default=repr)) for value in (expected, actual)]
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False)))
        start = max(same - _CONTEXT, 0)
        cut = "..." if start else ""
        wanted, given = (cut + one_line(text[start:], width=_WIDTH) for text in texts)
    return wanted, given


def path_text(path: Path) -> str:
    """A path into arguments, as in `updates.status` or `items[2].id`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return safe(text)


def safe(text: str) -> str:
    """Text from outside on one line: control characters visible, secrets removed, cut where it is long."""
    return one_line(redact(text), width=_WIDTH)


def _failure_lines(case: ReportedCase) -> Iterator[str]:
    failure = case.result.failure
    if failure is not None:
        where = f", turn {failure.turn + 1}" if failure.turn is not None else ""
        message = one_line(redact(failure.message), width=4 * _WIDTH)
        yield f"{failure.kind.value}{where}: {message}"


def _nothing_evaluated(case: ReportedCase) -> str:
    if case.expected is not None and case.expected.conversation == []:
        return "the conversation is empty"
    return "none has a threshold" if case.result.execution.turns else "no turn was finished"


def _difference_lines(case: ReportedCase, failed: list[MetricResult]) -> Iterator[str]:
    """The differences that the failed metrics look at; a metric of the user's own may look at all."""
    subjects = {subject for metric in failed for subject in subjects_of(metric.name)}
    single = len(case.differences) == 1
    for index, turn in enumerate(case.differences):
        for difference in turn:
            subject = "response" if difference.kind is DifferenceKind.RESPONSE_CHANGED else "calls"
            if subject in subjects:
                yield describe(difference) if single else f"turn {index + 1}: {describe(difference)}"
    if "state" in subjects:
        yield from map(describe, case.state_differences)


def subjects_of(metric: str) -> tuple[str, ...]:
    """What a metric looks at, told by its name: report cannot ask the registry, which stands above it."""
    for subject, words in (("state", _ABOUT_STATE), ("calls", _ABOUT_CALLS), ("response", _ABOUT_RESPONSE)):
        if any(word in metric for word in words):
            return (subject,)
    return ("calls", "response", "state")


def _number(position: int | None) -> str:
    return "?" if position is None else str(position + 1)


def _call(tool: str, args: Mapping[str, Any] | None) -> str:
    written = ", ".join(f"{key}={value_text(value, key)}" for key, value in (args or {}).items())
    return one_line(f"{tool}({written})", width=_WIDTH)


def _arguments(args: Mapping[str, Any] | None) -> str:
    """`args` that are not written are not `{}` to ADK, and the difference must be seen."""
    return "no arguments written (args absent)" if args is None else value_text(args)
