"""Fingerprints of files, folders, names and variables: equal if and only if the content is the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.fingerprints import (
    ABSENT,
    derive_secret,
    digest,
    of_file,
    of_folder,
    of_import,
    of_installed,
    of_interpreter,
    of_probe,
    of_variable,
    of_variables,
    select_variables,
)


def test_the_fingerprint_of_a_file_is_the_digest_of_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b"abc")

    assert of_file(str(file)) == digest(b"abc") == "ba7816bf8f01cfea"
    assert of_file(str(tmp_path)) == "folder"
    assert of_file(str(tmp_path / "none")) == ABSENT
    assert of_file(str(file / "below")) == ABSENT
    assert of_file("a\0b") == ABSENT


def test_the_fingerprint_of_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert of_file(str(tmp_path / "pipe")) == "special"
    assert of_file("/dev/null") == "special"


def test_the_fingerprint_of_a_very_large_file_is_its_size_and_times(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as stream:
        stream.truncate(65 * 1024 * 1024)
    os.utime(file, ns=(5, 7))

    assert of_file(str(file)) == f"~{65 * 1024 * 1024}:7:{file.stat().st_ctime_ns}"


def test_the_fingerprint_of_a_folder_covers_the_names_in_it(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "a").mkdir()
    before = of_folder(str(tmp_path))

    (tmp_path / "b").write_text("other content")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / ".workbench").mkdir()
    assert of_folder(str(tmp_path)) == before == digest(b"a/\0b")

    (tmp_path / "c").touch()
    assert of_folder(str(tmp_path)) != before
    assert of_folder(str(tmp_path), without={"c"}) == before
    assert of_folder(str(tmp_path / "c")) == of_folder(str(tmp_path / "none")) == ABSENT


def test_file_names_that_are_not_valid_text_count_too(tmp_path: Path) -> None:
    before = of_folder(str(tmp_path))
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff", os.O_CREAT | os.O_WRONLY))

    assert of_folder(str(tmp_path)) not in (before, ABSENT)


def test_a_probe_distinguishes_files_folders_links_and_absence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    link = tmp_path / "link"

    assert of_probe(str(tmp_path / "file")) == "file"
    assert of_probe(str(tmp_path / "one")) == "folder"
    assert of_probe(str(link)) == ABSENT
    found = []
    for target in ("one", "two", "none"):
        link.symlink_to(tmp_path / target)
        found.append(of_probe(str(link)))
        link.unlink()
    assert len({*found, ABSENT, "folder"}) == 5


def test_an_import_finds_what_the_import_system_finds(tmp_path: Path) -> None:
    for name in ("package", "namespace", "both"):
        (tmp_path / name).mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package.py").touch()
    (tmp_path / "both.py").touch()
    (tmp_path / "module.py").touch()
    (tmp_path / "native.cpython-311-x86_64-linux-gnu.so").touch()
    (tmp_path / "folder.py").mkdir()

    names = ["package", "module", "native", "namespace", "both", "none", "folder"]

    assert of_import(str(tmp_path), names) == "package,module,extension,namespace,module,absent,absent"
    assert of_import(str(tmp_path / "none"), ["a", "b"]) == "absent,absent"


def test_fingerprints_of_variables_differ_and_hide_values(tmp_path: Path) -> None:
    secret = derive_secret("/one")
    values = [of_variable(secret, value) for value in ("", "a", "b", "\udcff")]

    assert len({*values, ABSENT}) == 5
    assert of_variable(secret, None) == ABSENT
    assert of_variable(derive_secret("/two"), "a") != values[1]
    assert values[1] != digest(b"a")


def test_the_fingerprint_of_several_variables_ignores_their_order() -> None:
    secret = derive_secret("/one")

    assert of_variables(secret, {"A": "1", "B": "2"}) == of_variables(secret, {"B": "2", "A": "1"})
    assert of_variables(secret, {"A": "1", "B": "2"}) != of_variables(secret, {"A": "2", "B": "1"})
    assert of_variables(secret, {"A": "1"}) != of_variables(secret, {})


def test_installed_distributions_are_identified_by_their_folders(tmp_path: Path) -> None:
    (tmp_path / "one-1.0.dist-info").mkdir()
    before = of_installed(str(tmp_path))

    (tmp_path / "one").mkdir()
    assert of_installed(str(tmp_path)) == before

    (tmp_path / "one-1.0.dist-info").rename(tmp_path / "one-1.1.dist-info")
    changed = of_installed(str(tmp_path))
    (tmp_path / "__editable__.two.pth").touch()
    assert len({before, changed, of_installed(str(tmp_path)), of_installed(str(tmp_path / "none"))}) == 4


def test_the_interpreter_is_identified_by_its_version_and_the_format() -> None:
    assert of_interpreter() == f"{'.'.join(map(str, sys.version_info[:3]))};{fingerprints.FORMAT}"


def test_session_specific_variables_count_only_if_an_env_file_defines_them() -> None:
    values = {"MODEL": "m", "PWD": "/a", "SSH_TTY": "1", "TZ": "UTC", "LANG": "C", "Http_Proxy": "p"}

    assert select_variables("all", values, defined=["SSH_TTY"]).keys() == {
        "MODEL",
        "SSH_TTY",
        "TZ",
        "LANG",
        "Http_Proxy",
    }
    assert select_variables("all\0MODEL\0TZ", values, defined=[]).keys() == {"LANG", "Http_Proxy"}
    assert select_variables("proxies", values, defined=["MODEL"]) == {"Http_Proxy": "p"}
    assert select_variables("locale", values, defined=[]) == {"TZ": "UTC"}
    assert select_variables("locale", values, defined=["LANG", "MODEL"]) == {"TZ": "UTC", "LANG": "C"}
