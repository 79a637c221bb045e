"""Print the licences of all dependencies: `python tests/licences.py`. Exit with status 1 if one is not allowed.

Only installed packages are read, so install the extra `all` first. The extras `dev` and `docs` are tools that are not
distributed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Set
from importlib.metadata import Distribution, PackageNotFoundError, distribution, requires

from packaging.requirements import Requirement

NAME = "agent-eval-workbench"
TOOLS = {"dev", "docs"}

PERMISSIVE = re.compile(
    r"MIT|BSD|Apache|ISC|Python Software Foundation|PSF|Unlicense|Zlib|HPND|CNRI|Public Domain|CC0", re.IGNORECASE
)
WEAK = re.compile(r"MPL[- ]2\.0|Mozilla Public License 2\.0", re.IGNORECASE)
"""Copyleft for the files of the package itself only, which we do not change."""
COPYLEFT = re.compile(
    r"\b[AL]?GPL|General Public|EUPL|European Union Public|SSPL|Server Side Public|CDDL|\bEPL|Eclipse Public"
    r"|CC[- ]BY[- ]SA|Sleepycat|OSL-|\bMPL-1|BUSL|Business Source|Commons Clause",
    re.IGNORECASE,
)


def list_extras() -> set[str]:
    """Return the extras of workbench for users."""
    names = distribution(NAME).metadata.get_all("Provides-Extra") or []
    return set(names) - TOOLS - {"all"}


def find_dependencies(extras: Set[str]) -> dict[str, Distribution]:
    """Return the installed dependencies with these extras, and theirs."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(NAME, frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
        key = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
        if (key, wanted) in seen:
            continue
        seen.add((key, wanted))
        found[key] = package
        for text in requires(name) or ():
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in ("", *wanted)]
            if requirement.marker is None or any(map(requirement.marker.evaluate, environments)):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    del found[NAME]
    return found


def read_licence(package: Distribution) -> str:
    """Return the licence in the metadata: the expression, else the classifiers, else the first line of the text."""

    def read(field: str) -> list[str]:
        return package.metadata.get_all(field) or []

    classifiers = [line.rpartition(" :: ")[2] for line in read("Classifier") if line.startswith("License :: ")]
    texts = [text.strip().partition("\n")[0] for text in read("License")]
    return "; ".join(read("License-Expression") or classifiers or texts)


def is_allowed(licence: str) -> bool:
    """Return True if a licence is permissive or weak copyleft; of a choice with "OR", one permissive suffices."""
    choices = re.split(r"\bOR\b", licence) if "(" not in licence else [licence]
    return any((PERMISSIVE.search(choice) or WEAK.search(choice)) and not COPYLEFT.search(choice) for choice in choices)


def find_problems(packages: dict[str, Distribution]) -> Iterator[str]:
    """Yield the packages whose licence is copyleft or unknown."""
    for name, package in sorted(packages.items()):
        licence = read_licence(package)
        if not is_allowed(licence):
            yield f"{name}: {licence or 'no licence in its metadata'}"


if __name__ == "__main__":
    dependencies = find_dependencies(list_extras())
    for name, package in sorted(dependencies.items()):
        print(f"{name:<45} {package.version:<18} {read_licence(package)}")
    problems = list(find_problems(dependencies))
    print("\n".join(["not allowed:", *problems] if problems else [f"{len(dependencies)} packages, no copyleft"]))
    sys.exit(bool(problems))
