"""Themes from TOML files, bundled or of the user. An invalid file is reported; the other themes still load."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from platformdirs import user_config_path
from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

import workbench
from workbench.model.facts import Fact
from workbench.model.text import suggest_name

_NO_COLOUR = re.compile(r"(auto|initial|inherit)( \d+%)?")
_TEXT_STYLES = frozenset({"none", "bold", "b", "italic", "i", "underline", "u", "reverse", "r", "strike", "dim", "not"})


def _colour(value: str) -> str:
    """Validate a colour. Textual accepts any text as a colour and crashes at the next refresh."""
    try:
        Color.parse(value)
    except ColorParseError as error:
        raise ValueError(f"expected a colour such as #6cb6ff, teal or ansi_blue (found {value!r})") from error
    return value


def _variables(values: dict[str, str]) -> dict[str, str]:
    for name, value in values.items():
        if name.endswith("-style"):
            if not _TEXT_STYLES.issuperset(value.split()):
                raise ValueError(f"expected a text style such as bold for {name} (found {value!r})")
        elif not _NO_COLOUR.fullmatch(value):
            _colour(re.sub(r" \d+%$", "", value))
    return values


Colour = Annotated[str, AfterValidator(_colour)]


class ThemeFile(Fact):
    """Content of a theme file. An `ansi` theme uses the colours of the terminal, such as `ansi_blue`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=r"^[a-z0-9_-]+$")
    dark: bool = True
    ansi: bool = False
    primary: Colour
    secondary: Colour
    accent: Colour
    foreground: Colour
    background: Colour
    surface: Colour
    panel: Colour
    success: Colour
    warning: Colour
    error: Colour
    variables: Annotated[dict[str, str], AfterValidator(_variables)] = Field(default_factory=dict)

    def theme(self) -> Theme:
        """Return the theme. Variables missing in the file get their defaults."""
        values = self.model_dump(exclude={"variables"})
        return Theme(**values, variables={**self._default_variables(), **self.variables})

    def _default_variables(self) -> dict[str, str]:
        """Return default diff colours and, for ANSI themes, the variables that stylesheets of Textual require."""
        ours = {"diff-removed": self.error, "diff-added": self.success}
        if not self.ansi:
            return ours
        return {**ours, "ansi-background": "ansi_default", "ansi-foreground": "ansi_default"}


@dataclass(frozen=True)
class LoadedThemes:
    """Themes by name, and an error message for each invalid file."""

    themes: dict[str, Theme]
    failed: tuple[str, ...]


def theme_folders() -> tuple[Path, ...]:
    """Return the theme folders: first the bundled one, then that of the user, which takes precedence."""
    package = Path(workbench.__file__).parent
    bundled = package / "_bundled" / "themes"
    ours = bundled if bundled.is_dir() else package.parent / "themes"
    return ours, user_config_path("workbench", appauthor=False) / "themes"


def load_themes(folders: Iterable[Path]) -> LoadedThemes:
    """Read every `*.toml` in these folders. If two themes have the same name, the later one is used."""
    themes: dict[str, Theme] = {}
    failed: list[str] = []
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                theme = ThemeFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).theme()
            except ValidationError as error:
                failed.append(f"{path}: {_what_is_wrong(error)}")
            except (OSError, ValueError, RecursionError) as error:  # ValueError: also integers too long for Python
                failed.append(f"{path}: not readable as TOML: {error}")
            else:
                themes[theme.name] = theme
    return LoadedThemes(themes, tuple(failed))


def _what_is_wrong(error: ValidationError) -> str:
    """Format all errors as one message; an incomplete file would otherwise fill the screen with messages."""
    wrong, missing = [], []
    for item in error.errors(include_url=False):
        place = ".".join(map(str, item["loc"]))
        if item["type"] == "missing":
            missing.append(place)
        elif item["type"] == "extra_forbidden":
            wrong.append(f"{place}: unknown key{suggest_name(place, ThemeFile.model_fields)}")
        else:
            wrong.append(f"{place}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join([*wrong, *([f"missing: {', '.join(missing)}"] if missing else [])])


class ThemeChanges:
    """Detects changed theme files in folders. A theme whose file was removed stays until the application exits."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._seen = self._signature()

    def look(self) -> LoadedThemes | None:
        """Return the current themes, or None if no file changed since the last call."""
        signature = self._signature()
        if signature == self._seen:
            return None
        self._seen = signature
        return load_themes(self._folders)

    def _signature(self) -> frozenset[tuple[str, int, int, int, int]]:
        found = set()
        for folder in self._folders:
            with suppress(OSError), os.scandir(folder) as entries:
                for path in (entry.path for entry in entries if entry.name.endswith(".toml")):
                    with suppress(OSError):
                        status = os.stat(path)  # noqa: PTH116 - every few seconds
                        times = status.st_mtime_ns, status.st_ctime_ns
                        found.add((path, *times, status.st_size, status.st_ino))
        return frozenset(found)


def theme_problem(name: str, found: LoadedThemes) -> str | None:
    """Return an error message if the theme in the settings is unknown, else None. Themes of Textual are known."""
    known = sorted({*found.themes, *BUILTIN_THEMES})
    return None if name in known else f"[tui] theme: there is no theme {name!r}; there are {', '.join(known)}"
