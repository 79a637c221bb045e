"""Git: the commits of a repository, and a worktree of our own in which they are checked out.

Nothing of the user changes: no file, index, branch or configuration. The worktree lies in the user's cache. It is
removed at the end; if the process was killed, the next start removes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple, Self

from workbench.engine.plan import PlanError
from workbench.model.text import one_line, pluralise, shorten
from workbench.report.bisect_report import Commit
from workbench.store.errors import os_errors
from workbench.store.files import make_private_folder

_SECONDS = 600  # for one command; a checkout of a large repository takes long
_LONGEST = 200  # characters of a message of git
_LOG_FIELDS = ("%H", "%P", "%an", "%aI", "%s")
_ID = re.compile("[0-9a-f]{40,64}")
_SUBMODULE = "160000"
# Hooks of the user may do anything; a file-system monitor would outlive the worktree.
_SETTINGS = (
    f"core.hooksPath={os.devnull}", "core.fsmonitor=false", "gc.auto=0", "log.showSignature=false",
    "submodule.recurse=false",
)  # fmt: skip
_QUIET = tuple(part for setting in _SETTINGS for part in ("-c", setting))
_RAW_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv")
_RENAMES = ("--find-renames", "--no-relative")  # whatever the settings of the user
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
"""Variables that git sets for hooks, and that would lead our commands to another repository or index."""


class ChangedFile(NamedTuple):
    """A file that a commit changed. `former` is its name before, if it was renamed. `changes_names` is true if a
    folder has other names since."""

    name: str
    former: str = ""
    changes_names: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Its names before and after, without repetition."""
        return (self.former, self.name) if self.former else (self.name,)


class Repository:
    """The git repository around a folder. Every method raises PlanError if git fails."""

    def __init__(self, folder: Path) -> None:
        """Raises PlanError without git, outside of a repository, and for a repository without commits."""
        self.top = folder
        try:
            self.top = Path(self._run("rev-parse", "--show-toplevel").removesuffix("\n")).resolve()
        except PlanError as error:
            if "not a git repository" in str(error):
                raise PlanError(f"{folder}: not in a git repository; `workbench bisect` searches its commits") from None
            raise
        if self.find_commit("HEAD") is None:
            raise PlanError(f"{self.top}: the repository has no commits yet, so there is nothing to search")

    def require_whole(self) -> None:
        """Raise PlanError for a shallow clone and for submodules, whose commits cannot all be checked out."""
        if self._run("rev-parse", "--is-shallow-repository").strip() == "true":
            count = int(self._run("rev-list", "--count", "HEAD"))
            raise PlanError(
                f"{self.top}: a shallow clone with {pluralise(count, 'commit')}; get the rest first: "
                "`git fetch --unshallow`"
            )
        entries = self._run("ls-files", "--stage", "-z").split("\0")
        modules = [entry.partition("\t")[2] for entry in entries if entry.startswith(_SUBMODULE)]
        if modules:
            shown = one_line(", ".join(sorted(modules)[:3]))
            raise PlanError(
                f"{self.top}: the repository has submodules ({shown}), which a worktree does not contain; "
                "bisect cannot check out its commits"
            )

    def find_commit(self, revision: str) -> str | None:
        """Return the id of the commit of a revision; None if there is none."""
        if revision.startswith("-") or "\0" in revision:
            return None
        try:
            return self._run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
        except PlanError:
            return None

    def require_commit(self, revision: str, *, option: str) -> str:
        """Return the id of the commit of a revision that an option names. Raises PlanError if there is none."""
        found = self.find_commit(revision)
        if found is None:
            shown = shorten(one_line(revision), 60)
            raise PlanError(f"{option} {shown}: no such revision in {self.top}; expected a commit, branch or tag")
        return found

    def find_merge_base(self, one: str, other: str) -> str | None:
        """Return the best common ancestor of two commits; None if they have none."""
        try:
            return self._run("merge-base", one, other).strip()
        except PlanError:
            return None

    def list_commits(self, newest: str, *, without: str | None = None, first_parent: bool = False) -> list[Commit]:
        """List a commit and its ancestors, parents before children; not `without` and its ancestors.

        With `first_parent`, only the first parent of a merge counts.
        """
        options = ["--first-parent"] if first_parent else []
        limits = [newest] if without is None else [newest, f"^{without}"]
        return self._read_log("--topo-order", "--reverse", *options, *limits, first_parent=first_parent)

    def read_commit(self, commit: str) -> Commit:
        return self._read_log("--max-count=1", commit)[0]

    def _read_log(self, *arguments: str, first_parent: bool = False) -> list[Commit]:
        # No field can contain a NUL.
        text = self._run("log", "-z", f"--format={'%x00'.join(_LOG_FIELDS)}", *arguments, "--")
        fields = text.removesuffix("\0").split("\0") if text else []
        commits = []
        for start in range(0, len(fields), len(_LOG_FIELDS)):
            record = fields[start : start + len(_LOG_FIELDS)]
            if len(record) != len(_LOG_FIELDS) or not _ID.fullmatch(record[0]):
                raise PlanError(f"{self.top}: git log printed {one_line(record[0], width=_LONGEST)}, expected a commit")
            name, parents, author, date, subject = record
            found = tuple(parents.split())
            commits.append(Commit(name, found[:1] if first_parent else found, author, date, subject))
        return commits

    def is_tracked(self, path: str, commit: str) -> bool:
        """True if the index or a commit has this file, or files in this folder. It may be anywhere."""
        if not _is_below(path, self.top):
            return False
        name = os.path.relpath(path, self.top)
        literal = f":(top,literal){name}"
        listed = self._run("ls-files", "-z", "--", literal)
        return bool(listed or self._run("ls-tree", "-z", commit, "--", name))

    @property
    def is_dirty(self) -> bool:
        """True if files that git tracks differ from HEAD."""
        return bool(self._run("status", "--porcelain", "--untracked-files=no", "-z"))

    def list_untracked_env_files(self, more: Iterable[Path] = ()) -> list[str]:
        """List the `.env` files that git does not track, and those of `more`, relative to the top folder."""
        listed = self._run("ls-files", "--others", "--directory", "-z", "--", ".").split("\0")
        found = [name for name in listed if Path(name).name.startswith(".env.") or name.endswith(".env")]
        inside = [path.relative_to(self.top).as_posix() for path in more if path.is_relative_to(self.top)]
        tracked = {*self._run("ls-files", "-z", "--", *inside).split("\0")} if inside else frozenset()
        files = [name for name in (*found, *inside) if name not in tracked and (self.top / name).is_file()]
        return list(dict.fromkeys(files))

    def list_changed_files(self, commit: Commit) -> list[ChangedFile]:
        """List the files that a commit changed, compared with its first parent."""
        base = self._find_base(commit)
        fields = iter(self._run("diff", *_RENAMES, "--name-status", "-z", base, commit.id, "--").split("\0"))
        changed = []
        for status in fields:
            if status:
                former = next(fields) if status[0] in "RC" else ""
                changed.append(ChangedFile(next(fields), former, changes_names=status[0] in "ADRC"))
        return changed

    def diff(self, commit: Commit, files: Sequence[ChangedFile]) -> str:
        """Return the diff of some files between the first parent of a commit and the commit."""
        names = [name for file in files for name in file.names]
        literal = [f":(top,literal){name}" for name in names]
        if not names:
            return ""
        return self._run("diff", *_RAW_DIFF, *_RENAMES, self._find_base(commit), commit.id, "--", *literal)

    def read_sides(self, commit: Commit, file: ChangedFile) -> tuple[str, str]:
        """Return the content of a file in the first parent of a commit and in the commit; empty where it is missing."""
        sides = []
        for revision, name in ((self._find_base(commit), file.former or file.name), (commit.id, file.name)):
            exists = self._run("ls-tree", "-z", revision, "--", f":(top,literal){name}")
            sides.append(self._run("show", f"{revision}:{name}") if exists else "")
        return sides[0], sides[1]

    def _find_base(self, commit: Commit) -> str:
        """Return the first parent of a commit, or the empty tree."""
        return commit.parents[0] if commit.parents else self._run("hash-object", "-t", "tree", os.devnull).strip()

    def _run(self, *arguments: str) -> str:
        return run_git(self.top, *arguments)


class CommitRange:
    """The commits after `oldest` up to the last one, parents before children."""

    def __init__(self, oldest: Commit, commits: Sequence[Commit]) -> None:
        self.oldest = oldest
        self.commits = commits
        places = {commit.id: number for number, commit in enumerate(commits)}
        self.places = places
        self.parents = [[places[parent] for parent in commit.parents if parent in places] for commit in commits]
        self._edges: list[frozenset[str] | None] = []
        for commit, inside in zip(commits, self.parents, strict=True):
            edges = {parent for parent in commit.parents if parent not in places}
            descends = oldest.id in edges or any(self._edges[parent] is None for parent in inside)
            if not commit.parents:
                edges.add(commit.id)
            edges = edges.union(*(self._edges[parent] or () for parent in inside))
            self._edges.append(None if descends else frozenset(edges))
        self.unchecked = {number for number, edges in enumerate(self._edges) if edges}
        """Commits whose edges were not looked at yet."""

    def list_edges(self, number: int) -> frozenset[str]:
        """Return the commits in which the history of a commit leaves the range, if it does not descend from `oldest`.

        These are parents outside of the range, and commits without parents.
        """
        return self._edges[number] or frozenset()


def choose_evenly(commits: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of the commits, spread evenly."""
    if len(commits) <= most:
        return list(commits)
    return [commits[round(place * (len(commits) - 1) / (most - 1))] for place in range(most)]


def find_middles(places: Iterable[int], *, after: int) -> list[int]:
    """Return the middle of each gap between neighbours of these places, without those before `after`."""
    ordered = sorted(place for place in places if place >= after)
    return [(one + other) // 2 for one, other in pairwise(ordered) if other - one > 1]


def run_git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return what it prints. Raises PlanError.

    It has a session of its own, so that Ctrl-C does not end it halfway, and takes no lock for mere reading.
    """
    variables = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    variables |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-C", str(folder), *_QUIET, *arguments]
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False,
            encoding="utf-8", errors="surrogateescape", start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise PlanError("git was not found; `workbench bisect` needs it on the PATH") from error
    except subprocess.TimeoutExpired as error:
        raise PlanError(f"{folder}: git {arguments[0]} did not end within {_SECONDS} s") from error
    if done.returncode:
        said = one_line(done.stderr.strip(), width=_LONGEST) or f"exit status {done.returncode}"
        raise PlanError(f"{folder}: git {arguments[0]} failed: {said}")
    return done.stdout


# The worktree.


def _get_cache_folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "workbench" / "bisect"


class Worktree:
    """A worktree of a repository in the user's cache, always at the same place for the same project.

    `linked` are files that git does not track; each is linked into the worktree unless the commit has one there.
    `interpreters` are virtual environments, which belong to no commit. The folder `.workbench` of its project is a link
    to one in the project of the user, so that results outlive it.
    """

    def __init__(
        self,
        repository: Repository,
        project: Path,
        *,
        linked: Sequence[str] = (),
        interpreters: Sequence[Path] = (),
    ) -> None:
        """Raises PlanError if another process uses the worktree of this project, or git refuses to create it."""
        self._repository = repository
        self._linked = linked
        # That of the system may contain the repository.
        self._interpreters = [folder for folder in interpreters if repository.top in folder.parents]
        self._within = project.relative_to(repository.top)
        self.results = project / ".workbench" / "bisect"
        """The folder below which the history of all searches is."""
        self.commit: str | None = None
        """The commit that is checked out."""
        self._links: list[Path] = []
        name = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
        with os_errors("create", _get_cache_folder()):
            folder = _get_cache_folder().resolve() / name
            make_private_folder(folder)
        # An agent may be named after the folder that it lies in.
        self.top = folder / "worktree" / (repository.top.name or "repository")
        make_private_folder(self.results / ".workbench")
        self._lock = _lock(folder / "lock")
        if self._lock is None:
            raise PlanError(f"{project}: another bisect of this project runs; wait for its end, or end it")
        try:
            self.remove()
            self.top.parent.mkdir(exist_ok=True)
            head = repository.require_commit("HEAD", option="HEAD")
            run_git(repository.top, "worktree", "add", "--force", "--detach", "--no-checkout", str(self.top), head)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def project(self) -> Path:
        """The folder of the project in the worktree. It may not exist in a commit."""
        return self.top / self._within

    def check_out(self, commit: str) -> None:
        """Check out a commit, without anything that agents left. Raises PlanError."""
        if self.commit == commit:
            return
        self.commit = None
        for link in self._links:  # git must not follow them
            link.unlink(missing_ok=True)
        self._links.clear()
        run_git(self.top, "checkout", "--quiet", "--detach", "--force", commit)
        # Compiled modules, too: with equal times and sizes they would replace the source of another commit.
        run_git(self.top, "clean", "-ffdxq")
        for name in self._linked:
            if not os.path.lexists(place := self.top / name):
                self._link(place, self._repository.top / name)
        if self.has_project:
            store = self.project / ".workbench"
            # A commit may have one, but its results belong to all searches.
            if store.is_symlink() or store.is_file():
                store.unlink()
            elif store.is_dir():
                shutil.rmtree(store)
            self._link(store, self.results / ".workbench")
        self.commit = commit

    @property
    def has_project(self) -> bool:
        """True if the commit that is checked out has the folder of the project, and it leads nowhere else."""
        return self.project.is_dir() and self._is_inside(self.project)

    def _is_inside(self, folder: Path) -> bool:
        return _is_below(str(folder.resolve()), self.top)

    def _link(self, place: Path, target: Path) -> None:
        """Make a link, unless its folder does not exist or a link of the commit leads out of the worktree."""
        if place.parent.is_dir() and self._is_inside(place.parent):
            place.symlink_to(target, target_is_directory=target.is_dir())
            self._links.append(place)

    def to_worktree(self, path: str) -> str:
        """Return the path in the worktree for a path in the repository of the user. Other paths stay the same."""
        if _is_below(path, self.top) or not _is_below(path, self._repository.top):
            return path
        relative = os.path.relpath(path, self._repository.top)
        if relative in self._linked or any(_is_below(path, folder) for folder in self._interpreters):
            return path
        return os.path.normpath(self.top / relative)

    def to_repository(self, path: str) -> str:
        """Return the path in the repository of the user for a path in the worktree. Other paths stay the same."""
        if not _is_below(path, self.top):
            return path
        return os.path.normpath(self._repository.top / os.path.relpath(path, self.top))

    def is_only_in_repository(self, path: str) -> bool:
        """True for a path of the repository that lies outside of the worktree but should not."""
        return self.to_worktree(path) != path

    def is_tracked(self, path: str) -> bool:
        """True if git tracks a path of the repository of the user, there or in the commit that is checked out."""
        return self._repository.is_tracked(path, self.commit or "HEAD")

    def remove(self) -> None:
        """Remove the worktree and what git knows of it, also those of a process that was killed."""
        with contextlib.suppress(PlanError):  # it does not exist, or is damaged
            run_git(self._repository.top, "worktree", "remove", "--force", "--force", str(self.top))
        shutil.rmtree(self.top.parent, ignore_errors=True)
        git_folder = Path(run_git(self._repository.top, "rev-parse", "--git-common-dir").removesuffix("\n"))
        for known in (self._repository.top / git_folder).glob("worktrees/*/gitdir"):
            if known.read_text(encoding="utf-8", errors="surrogateescape").strip() == str(self.top / ".git"):
                shutil.rmtree(known.parent, ignore_errors=True)

    def close(self) -> None:
        """Remove the worktree; another process may then use its place."""
        if self._lock is not None:
            try:
                self.remove()
            finally:
                self._lock.close()
                self._lock = None


def _is_below(path: str, folder: Path) -> bool:
    return path == str(folder) or path.startswith(f"{folder}{os.sep}")


def _lock(path: Path) -> IO[bytes] | None:
    """Lock a file until it is closed or the process ends; None if another process has locked it."""
    with os_errors("write", path):
        file = path.open("wb")
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        except OSError:  # the file system has no locks
            return file
    return file
