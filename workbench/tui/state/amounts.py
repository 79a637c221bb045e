"""Times and counts in the words of the screen, where they share a line with much else.

Reports have room, and write theirs as `report.wording` does.
"""

from __future__ import annotations


def duration(seconds: float) -> str:
    """How long a case or run takes: milliseconds below a hundredth of a second, minutes from a hundred seconds on."""
    if 0 < seconds < 0.01:
        return f"{max(seconds * 1000, 1):.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def time_taken(seconds: float) -> str:
    """How long a case took; `-` where nothing ran that could have been timed: a row that is judged as it stands."""
    return duration(seconds) if seconds else "-"


def time_text(seconds: float) -> str:
    """A time in a trace, where every millisecond counts: "8.1 µs", "0.4 ms", "12 ms", "1.25 s", "2 min 5 s"."""
    if 0 < seconds < 0.00005:  # agents that are plain functions: in milliseconds it would be 0.0
        return f"{seconds * 1e6:.1f} µs"
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def thousands(count: float) -> str:
    """A large count for people: exact below a thousand, then in thousands or millions."""
    if count < 1000:
        return f"{count:.0f}"
    return f"{count / 1000:.1f}k" if count < 999_950 else f"{count / 1_000_000:,.1f}M"
