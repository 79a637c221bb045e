"""The command `import`: sessions of production become eval cases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.console import WRONG, message, write_lines, write_record
from workbench.cli.shared_options import WholeNumber, format_option
from workbench.model.text import neutralise, one_line, pluralise, shorten

if TYPE_CHECKING:
    from workbench.engine.session_import import ImportedSession, Redactor, SessionFilter, SourceFile
    from workbench.store.datasets.adk_sessions import SourceSession


def _parse_since(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    from workbench.engine.session_import import parse_since

    try:
        return None if value is None else parse_since(value, now=datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=context, param=parameter) from None


def _compile_patterns(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[re.Pattern[str], ...]:
    from workbench.engine.session_import import compile_pattern

    try:
        return tuple(map(compile_pattern, value))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=context, param=parameter) from None


@click.command("import")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", type=click.Path(path_type=Path))
@click.option(
    "--into",
    metavar="EVALSET",
    type=click.Path(path_type=Path),
    help="Keep the sessions as cases of this eval set, which is created if it is missing.",
)
@click.option("--list", "only_lists", is_flag=True, help="List the sessions and keep none; the default without --into.")
@click.option("--show", metavar="ID", help="Show one session as the case that it would become, and keep none.")
@click.option("--session", "ids", metavar="ID", multiple=True, help="Only this session; repeatable.")
@click.option("--user", "users", metavar="ID", multiple=True, help="Only sessions of this user; repeatable.")
@click.option(
    "--since",
    metavar="WHEN",
    callback=_parse_since,
    help="Only sessions that began since a date, a time, or a duration ago: 2026-11-01, 12h, 7d.",
)
@click.option(
    "--contains", metavar="TEXT", multiple=True, help="Only sessions with this text in a message; repeatable."
)
@click.option("--tool", "tools", metavar="NAME", multiple=True, help="Only sessions that called this tool; repeatable.")
@click.option("--limit", type=WholeNumber(min=1), help="Maximum number of sessions, the newest first.")
@click.option(
    "--redact",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    callback=_compile_patterns,
    help="Also replace matches of this regular expression by [redacted]; repeatable.",
)
@format_option
def import_sessions(
    *,
    sources: tuple[Path, ...],
    into: Path | None,
    only_lists: bool,
    show: str | None,
    ids: tuple[str, ...],
    users: tuple[str, ...],
    since: datetime | None,
    contains: tuple[str, ...],
    tools: tuple[str, ...],
    limit: int | None,
    patterns: tuple[re.Pattern[str], ...],
    report_format: str,
) -> int:
    """Find sessions of production, and keep them as eval cases.

    SOURCE is a session store of ADK (SQLite), a session that `adk web` exported, traces in OTLP/JSON, an export of
    Langfuse or LangSmith, or a file with lists of messages. Its content says which. It is never changed.

    A case expects what happened: tool calls, intermediate and final responses. Keys and passwords are replaced by
    [redacted]. A session that the set already has is skipped.

    Exit status: 0 done; 2 the command or a file is wrong, no session matches, or none of them can be a case.
    """
    from workbench.engine.session_import import Redactor, SessionFilter, find_sessions, open_sources

    wanted = SessionFilter(
        ids=ids if show is None else (show,),
        users=users,
        since=since,
        contains=contains,
        tools=tools,
        limit=limit,
    )
    redactor = Redactor(patterns)
    opened = open_sources(sources)
    for source in opened:
        for note in source.notes:
            message(f"{source.path}: {note}")
    as_json = report_format == "json"
    if show is not None:
        return _show(next(iter(find_sessions(opened, wanted, redactor))), redactor, as_json=as_json)
    if into is None or only_lists:
        return _list(opened, wanted, redactor, as_json=as_json)
    return _keep(find_sessions(opened, wanted, redactor), into, redactor, as_json=as_json)


def _show(session: SourceSession, redactor: Redactor, *, as_json: bool) -> int:
    from workbench.engine.session_import import (
        SCHEMA_VERSION,
        case_record,
        describe_redactions,
        preview_lines,
        redaction_records,
        session_record,
    )

    redacted, redactions = redactor.redact_session(session)
    if as_json:
        shown = {
            "schema_version": SCHEMA_VERSION,
            "session": session_record(redacted),
            "case": case_record(redacted),
            "redactions": redaction_records(redactions),
        }
        write_record(shown)
        return 0
    lines = [f"{redacted.id}  {redacted.user}  {_format_time(redacted)}"]
    for heading, text in preview_lines(redacted):
        first, *rest = neutralise(text).split("\n")
        lines.append(f"{heading:<9} {first}".rstrip())
        lines += [f"{'':<9} {line}" for line in rest]
    if redactions:
        lines.append(f"{'redacted':<9} {describe_redactions(redactions)}")
    write_lines(map(neutralise, lines))
    return 0


def _list(sources: Sequence[SourceFile], wanted: SessionFilter, redactor: Redactor, *, as_json: bool) -> int:
    from workbench.engine.session_import import SCHEMA_VERSION, find_sessions, session_record

    found = [redactor.redact_session(session)[0] for session in find_sessions(sources, wanted, redactor)]
    if as_json:
        listed: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "sources": [{"path": str(source.path), "kind": source.kind, "notes": source.notes} for source in sources],
            "sessions": [session_record(session) for session in found],
        }
        write_record(listed)
    elif found:
        write_lines(_format_table(found))
    if not found:
        message("no session matches" if any(_has_sessions(source) for source in sources) else "there are no sessions")
        return WRONG
    message(f"{pluralise(len(found), 'session')}: {', '.join(dict.fromkeys(source.kind for source in sources))}")
    return 0


def _has_sessions(source: SourceFile) -> bool:
    from workbench.engine.session_import import SessionFilter

    return any(True for _ in source.find_sessions(SessionFilter(limit=1)))


_ID, _USER, _TOOLS, _MESSAGE = 40, 20, 30, 60
"""The widths of columns, in characters."""


def _format_table(sessions: Sequence[SourceSession]) -> Iterator[str]:
    from workbench.engine.session_import import get_first_message, list_tools
    from workbench.report.text_report import cell_length

    rows = [("id", "user", "when", "turns", "tools", "first message")]
    for session in sessions:
        text = get_first_message(session) if session.problem is None else f"({session.problem})"
        tools = one_line(", ".join(list_tools(session)), width=_TOOLS)
        rows.append(
            (
                shorten(one_line(session.id), _ID),
                one_line(session.user, width=_USER),
                _format_time(session),
                str(len(session.turns)),
                tools,
                one_line(text, width=_MESSAGE),
            )
        )
    widths = [max(cell_length(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [cell + " " * (width - cell_length(cell)) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _format_time(session: SourceSession) -> str:
    from workbench.report.run_report import time_text

    return "" if session.began is None else time_text(session.began)


def _keep(sessions: Iterable[SourceSession], into: Path, redactor: Redactor, *, as_json: bool) -> int:
    from workbench.engine.session_import import (
        SCHEMA_VERSION,
        keep_sessions,
        redaction_records,
        session_record,
    )
    from workbench.store.evalsets.new_evalsets import open_or_make_set

    document = open_or_make_set(into)
    kept = keep_sessions(document, sessions, redactor)
    if document.is_dirty:
        document.save()
    if as_json:
        record = {
            "schema_version": SCHEMA_VERSION,
            "eval_set": str(into),
            "sessions": [
                {
                    **session_record(each.session),
                    "eval_id": each.eval_id,
                    "status": _get_status(each),
                    "redactions": redaction_records(each.redactions),
                }
                for each in kept
            ],
        }
        write_record(record)
    else:
        write_lines(_report_kept(kept, into))
    if not kept:
        message("no session matches; nothing was written")
    return 0 if any(each.eval_id is not None for each in kept) else WRONG


def _get_status(imported: ImportedSession) -> str:
    if imported.eval_id is None:
        return "refused"
    return "added" if imported.is_added else "present"


def _report_kept(kept: Sequence[ImportedSession], into: Path) -> Iterator[str]:
    from workbench.engine.session_import import describe_redactions

    notes: dict[str, list[str]] = {}
    for each in kept:
        if each.eval_id is None:
            notes.setdefault(f"skipped, {each.session.problem}", []).append(each.session.id)
            continue
        if not each.is_added:
            notes.setdefault(f"skipped, {into} already has it", []).append(each.session.id)
            continue
        turns = pluralise(len(each.session.turns), "turn")
        yield one_line(f"added {each.eval_id}: {turns}")
        for note in each.session.notes:
            yield f"  note: {one_line(note)}"
        if each.redactions:
            yield f"  redacted: {one_line(describe_redactions(each.redactions))}"
    for note, names in notes.items():
        first = one_line(names[0]) + ("" if len(names) == 1 else f" and {pluralise(len(names) - 1, 'more session')}")
        yield f"{first}: {one_line(note)}"
    added = sum(each.is_added for each in kept)
    if added:
        yield f"{pluralise(added, 'case')} added to {into}"
