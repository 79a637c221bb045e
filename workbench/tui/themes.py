"""Themes: read from TOML files, ours and the user's. A file that is no theme is named, and costs only itself."""

from __future__ import annotations

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
from workbench.model.base import Fact
from workbench.model.text import suggest_name

_NO_COLOUR = re.compile(r"(auto|initial|inherit)( \d+%)?")
_TEXT_STYLES = frozenset({"none", "bold", "b", "italic", "i", "underline", "u", "reverse", "r", "strike", "dim", "not"})


def _colour(value: str) -> str:
    """Textual takes any text for a colour and dies of it at the next refresh, so it is parsed here."""
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
    """What a theme's file says. `ansi` themes use the terminal's own colours and name them as `ansi_blue`."""

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
        """The theme, with our own variables filled in where the file leaves them open."""
        values = self.model_dump(exclude={"variables"})
        return Theme(**values, variables={**self._default_variables(), **self.variables})

    def _default_variables(self) -> dict[str, str]:
        """Ours, and those that Textual's stylesheets need of a theme with the terminal's colours."""
        ours = {"diff-removed": self.error, "diff-added": self.success}
        if not self.ansi:
            return ours
        return {**ours, "ansi-background": "ansi_default", "ansi-foreground": "ansi_default"}


@dataclass(frozen=True)
class LoadedThemes:
    """Themes by name, and a sentence for each file that is none."""

    themes: dict[str, Theme]
    failed: tuple[str, ...]


def theme_folders() -> tuple[Path, ...]:
    """Where themes are looked for: those that come with workbench, then the user's own, which win."""
    package = Path(workbench.__file__).parent
    bundled = package / "_bundled" / "themes"
    ours = bundled if bundled.is_dir() else package.parent / "themes"
    return ours, user_config_path("workbench", appauthor=False) / "themes"


def load_themes(folders: Iterable[Path]) -> LoadedThemes:
    """Read every `*.toml` of these folders; of two themes with one name the later wins."""
    themes: dict[str, Theme] = {}
    failed: list[str] = []
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                theme = ThemeFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).theme()
            except ValidationError as error:
                failed.append(f"{path}: {_what_is_wrong(error)}")
            except (OSError, ValueError, RecursionError) as error:  # ValueError: also integers that Python refuses
                failed.append(f"{path}: not readable as TOML: {error}")
            else:
                themes[theme.name] = theme
    return LoadedThemes(themes, tuple(failed))


def _what_is_wrong(error: ValidationError) -> str:
    """All of it in one sentence: a file half written would be a screen full of messages."""
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
    """Tells when the themes of some folders have changed. A theme whose file was removed stays until the end."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._seen = self._signature()

    def look(self) -> LoadedThemes | None:
        """The themes as they are now; None where no file has changed since the last look."""
        signature = self._signature()
        if signature == self._seen:
            return None
        self._seen = signature
        return load_themes(self._folders)

    def _signature(self) -> frozenset[tuple[str, int, int, int, int]]:
        found = set()
        for path in (path for folder in self._folders for path in folder.glob("*.toml")):
            with suppress(OSError):
                status = path.stat()
                times = status.st_mtime_ns, status.st_ctime_ns
                found.add((str(path), *times, status.st_size, status.st_ino))
        return frozenset(found)


def theme_problem(name: str, found: LoadedThemes) -> str | None:
    """What is wrong with the name of a theme in the settings; those that come with Textual are known too."""
    known = sorted({*found.themes, *BUILTIN_THEMES})
    return None if name in known else f"[tui] theme: there is no theme {name!r}; there are {', '.join(known)}"
