"""Edits of installed libraries, compared with what their installation recorded."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import time
from pathlib import Path

import pytest

from workbench.agents.installed_libraries import InstalledLibraries, Package, find_changed_files, parse_packages
from workbench.model.identity import Dependencies, Dependency

AS_INSTALLED = "as installed"


class Environment:
    """A folder of installed libraries."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def install(self, name: str, files: dict[str, str], *, method: str = "sha256") -> None:
        """Write files, and then a `RECORD` of them, as installers do."""
        lines = []
        for path, text in files.items():
            self.write(path, text)
            digest = base64.urlsafe_b64encode(hashlib.new(method, text.encode()).digest()).rstrip(b"=").decode()
            quoted = f'"{path}"' if "," in path else path
            lines.append(f"{quoted},{method}={digest},{len(text)}")
        lines += [f"{name}.dist-info/RECORD,,", "../../bin/program,sha256=x,1", f"{name}/__pycache__/a.pyc,,"]
        self.write(f"{name}.dist-info/RECORD", "\r\n".join(lines) + "\r\n")

    def write(self, path: str, text: str) -> None:
        """Write a file so that its time differs from that of files written before."""
        time.sleep(0.02)
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def row(self, *packages: str) -> Dependency:
        return Dependency("libraries", f"{self.folder}::{','.join(packages)}", "-")

    def fingerprint(self, *packages: str) -> str:
        """Return the present fingerprint, as a new process finds it."""
        return InstalledLibraries().fingerprint(self.row(*packages))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    environment = Environment(tmp_path / "site-packages")
    environment.install("tools-1.0", {"tools/__init__.py": "A = 1\n", "tools/data, more.json": "{}", "single.py": ""})
    environment.install("google_adk-1.0", {"google/adk/__init__.py": "", "google/adk/agents/base.py": "B = 1\n"})
    environment.install("google_genai-1.0", {"google/genai/__init__.py": "C = 1\n"}, method="sha512")
    return environment


def test_only_edited_files_differ_from_their_installation(environment: Environment) -> None:
    packages = ("tools", "single.py", "google/adk", "google/genai")
    assert environment.fingerprint(*packages) == AS_INSTALLED

    environment.write("google/adk/agents/base.py", "B = 2\n")
    edited = environment.fingerprint(*packages)
    assert find_changed_files(AS_INSTALLED, edited) == ["google/adk/agents/base.py"]
    assert environment.fingerprint("google/genai", "tools") == AS_INSTALLED

    environment.write("google/adk/agents/base.py", "B = 3\n")
    assert find_changed_files(edited, environment.fingerprint(*packages)) == ["google/adk/agents/base.py"]

    environment.write("google/adk/agents/base.py", "B = 1\n")
    environment.write("tools/data, more.json", "[]")
    (environment.folder / "single.py").unlink()
    now = environment.fingerprint(*packages)
    assert find_changed_files(AS_INSTALLED, now) == ["single.py", "tools/data, more.json"]
    assert find_changed_files(edited, now) == ["google/adk/agents/base.py", "single.py", "tools/data, more.json"]


def test_touching_copying_and_installing_again_change_nothing(environment: Environment) -> None:
    for path in environment.folder.rglob("*.py"):
        os.utime(path)
        os.link(path, f"{path}.linked")  # as installers link from a cache, which changes a time
    environment.write("tools/__pycache__/x.pyc", "")
    environment.write("tools/cache.tmp", "left there by the library")

    assert environment.fingerprint("tools", "google/adk", "google/genai") == AS_INSTALLED


def test_a_large_file_is_compared_by_size_and_time(environment: Environment) -> None:
    environment.install("big-1.0", {"big/__init__.py": "x" * 5_000_000})
    path = environment.folder / "big" / "__init__.py"
    os.utime(path, (1, 1))
    assert environment.fingerprint("big") == AS_INSTALLED

    later = time.time() + 3600
    os.utime(path, (later, later))
    assert find_changed_files(AS_INSTALLED, environment.fingerprint("big")) == ["big/__init__.py"]


def test_all_content_counts_of_what_no_installer_recorded(environment: Environment) -> None:
    environment.write("by_hand/__init__.py", "A = 1\n")
    environment.write("by_hand/sub/prompt.txt", "Be kind.")
    environment.write("module.py", "A = 1\n")
    before = environment.fingerprint("by_hand", "module.py")
    assert find_changed_files("", before) == ["by_hand/__init__.py", "by_hand/sub/prompt.txt", "module.py"]

    environment.write("by_hand/sub/prompt.txt", "Be brief.")

    assert find_changed_files(before, environment.fingerprint("by_hand", "module.py")) == ["by_hand/sub/prompt.txt"]


@pytest.mark.parametrize(
    "damage",
    [
        "",
        '"tools/__init__.py',
        "tools/__init__.py,what=x,1",
        "tools/\0.py,sha256=x,1\ntools/\udcff.py,sha256=x,1\n",
        "tools,,,,,\n" * 9,
    ],
)
def test_a_damaged_record_still_lets_edits_be_noticed(environment: Environment, damage: str) -> None:
    record = environment.folder / "tools-1.0.dist-info" / "RECORD"
    record.write_bytes(damage.encode("utf-8", "surrogateescape"))
    before = environment.fingerprint("tools")
    before.encode()  # it can be stored

    environment.write("tools/__init__.py", "A = 2\n")
    first = environment.fingerprint("tools")
    environment.write("tools/__init__.py", "A = 3\n")

    assert len({before, first, environment.fingerprint("tools")}) == 3

    (environment.folder / "tools/__init__.py").unlink()
    os.mkfifo(environment.folder / "tools/__init__.py")
    assert environment.fingerprint("tools") != first


def test_a_module_that_was_added_to_a_package_counts(environment: Environment) -> None:
    libraries = InstalledLibraries()
    package = Package(str(environment.folder), "google/adk")
    libraries.refresh_watched([package], watcher=1)
    environment.write("google/adk/agents/helper.py", "A = 1\n")
    libraries.refresh_watched([package], watcher=1)
    added = libraries.fingerprint(environment.row("google/adk"))
    assert find_changed_files(AS_INSTALLED, added) == ["google/adk/agents/helper.py"]

    environment.write("google/adk/agents/helper.py", "A = 2\n")

    assert environment.fingerprint("google/adk") != added


def test_many_edits_make_a_short_fingerprint(environment: Environment) -> None:
    files = {f"many/m{number}.py": "A = 1\n" for number in range(100)}
    environment.install("many-1.0", files)
    for name in files:
        (environment.folder / name).write_text("A = 2\n")
    before = environment.fingerprint("many")
    (environment.folder / "many/m99.py").write_text("A = 3\n")

    assert environment.fingerprint("many") != before
    assert len(before) < 2_000


async def test_a_record_is_complete_only_if_nothing_changed_since_the_process_loaded_it(
    environment: Environment,
) -> None:
    libraries = InstalledLibraries()
    rows = frozenset({environment.row("tools"), Dependency("file", "/a", "-")})
    recorded = Dependencies(rows=rows, complete=True)
    loaded = time.time_ns() + 20_000_000

    complete = await libraries.complete(recorded, loaded_ns=loaded)
    assert complete is not None
    assert {row.fingerprint for row in complete.rows if row.kind == "libraries"} == {AS_INSTALLED}
    assert await libraries.complete(complete, loaded_ns=0) == complete

    await asyncio.sleep(0.02)
    environment.write("tools/__init__.py", "A = 1\n")  # what the process loaded is unknown, whatever is there now
    libraries.forget()
    unknown = await libraries.complete(recorded, loaded_ns=loaded)
    assert unknown is not None
    found = next(row.fingerprint for row in unknown.rows if row.kind == "libraries")
    assert found not in (AS_INSTALLED, "-")
    assert find_changed_files(found, "tools/a.py=x") == []
    assert await libraries.complete(None, loaded_ns=loaded) is None


def test_watched_packages_are_looked_at_when_the_watcher_says_so(environment: Environment) -> None:
    libraries, watcher = InstalledLibraries(), object()
    package = Package(str(environment.folder), "tools")
    before = libraries.refresh_watched([package], watcher=watcher)

    environment.write("tools/__init__.py", "A = 2\n")

    assert libraries.fingerprint(environment.row("tools")) == AS_INSTALLED
    assert libraries.refresh_watched([package], watcher=watcher) != before
    assert libraries.get_changed_file(package).endswith("tools/__init__.py")
    assert libraries.fingerprint(environment.row("tools")) != AS_INSTALLED


def test_folders_and_files_of_packages_are_listed(environment: Environment) -> None:
    libraries = InstalledLibraries()
    packages = parse_packages(environment.row("google/adk", "single.py"))

    assert libraries.list_folders(packages) == {
        str(environment.folder), str(environment.folder / "google/adk"), str(environment.folder / "google/adk/agents")
    }  # fmt: skip
    counted = ["google/adk/agents/base.py", "single.py", "google/adk/new.py", "google/genai/__init__.py", "other.py"]
    assert [libraries.is_counted(str(environment.folder / name), packages) for name in counted] == [
        True, True, True, False, False
    ]  # fmt: skip
