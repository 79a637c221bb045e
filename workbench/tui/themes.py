"""Themes from TOML files, bundled or of the user, and themes of Textual.

An invalid file is reported; the other themes still load.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from platformdirs import user_config_path
from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from textual.color import Color, ColorParseError
from textual.css.stylesheet import Stylesheet
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


# Themes of Textual, whose colours are not made for our small texts.

_READABLE = 4.5  # least contrast of text, by WCAG 2.2
_VISIBLE = 2.0  # least contrast of a frame without the focus
_SURFACES = ("background", "surface", "panel")
_ON_SURFACES = ("foreground", "primary", "secondary", "success", "warning", "error", "diff-removed", "diff-added")
_TINT = 0.05  # share of the foreground in the background of a field with the focus
_MUTED = 0.6  # share of the foreground in a muted text
_CURSORS = ("block-cursor", "block-cursor-blurred", "input-cursor")
_STEPS = 20  # from a colour to black or white


def make_readable(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a theme with text colours lightened or darkened until they contrast with the surfaces."""
    background = Color.parse(variables["background"])
    surfaces = [background + Color.parse(variables[name]) for name in _SURFACES]
    surfaces += [each.blend(Color.parse(variables["foreground"]), _TINT) for each in surfaces]
    found = dict(variables)
    for name in _ON_SURFACES:
        found[name] = _adapt_colour(Color.parse(variables[name]), surfaces).hex
    muted = background.blend(Color.parse(found["foreground"]), _MUTED)
    found["text-muted"] = _adapt_colour(muted, surfaces).hex
    found["border-blurred"] = _adapt_colour(Color.parse(variables["border-blurred"]), [background], least=_VISIBLE).hex
    for name in _CURSORS:
        below = [surface + Color.parse(variables[f"{name}-background"]) for surface in surfaces[:2]]
        foreground = variables[f"{name}-foreground"]
        text = below[0].get_contrast_text(1.0) if foreground.startswith("auto") else Color.parse(foreground)
        found[f"{name}-foreground"] = _adapt_colour(text, below).hex
    return found


def _adapt_colour(colour: Color, surfaces: Sequence[Color], *, least: float = _READABLE) -> Color:
    """Return the colour, mixed with white on dark surfaces or black on light ones only as far as needed."""
    ends = [Color(0, 0, 0), Color(255, 255, 255)]
    end = max(ends, key=lambda each: _measure_contrast(each, surfaces))
    mixtures = (colour.blend(end, step / _STEPS) for step in range(_STEPS))
    return next((each for each in mixtures if _measure_contrast(each, surfaces) >= least), end)


def _measure_contrast(colour: Color, surfaces: Iterable[Color]) -> float:
    """Return the least contrast of a colour with some surfaces, from 1 to 21."""
    shade = _compute_luminance(colour)
    shades = (sorted((shade, _compute_luminance(surface))) for surface in surfaces)
    return min((lighter + 0.05) / (darker + 0.05) for darker, lighter in shades)


def _compute_luminance(colour: Color) -> float:
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def theme_problem(name: str, found: LoadedThemes) -> str | None:
    """Return an error message if the theme in the settings is unknown, else None. Themes of Textual are known."""
    known = sorted({*found.themes, *BUILTIN_THEMES})
    return None if name in known else f"[tui] theme: there is no theme {name!r}; there are {', '.join(known)}"


class ParsedStylesheet(Stylesheet):
    """A stylesheet that parses each source once for each set of colours.

    That of Textual parses everything again when the application starts, and when a screen brings its own styles.
    """

    def __init__(self, *, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables=variables)
        self._colours = dict(variables or {})

    def set_variables(self, variables: dict[str, str]) -> None:
        """Use other colours, if they are others."""
        if variables != self._colours:
            self._colours = dict(variables)
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse what was not yet parsed with these colours. If it is invalid, the rules stay as they were."""
        self.parse()
