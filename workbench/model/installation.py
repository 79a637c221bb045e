"""Where this program was installed from, for hints on how to install more of it."""

from __future__ import annotations

import json
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

_NAME = "agent-eval-workbench"


def install_command(extra: str) -> str:
    """Return the command that installs an extra from where this program came from.

    The origin is that of PEP 610 (`direct_url.json`), else the checkout that runs. The bare name of the distribution is
    never named: no index has it, and whatever is registered under it one day is another program.
    """
    requirement = _format_requirement(extra)
    if requirement is None:
        return f"install the extra {extra} from where this program came from"
    return f"pip install {requirement}"


def _format_requirement(extra: str) -> str | None:
    origin = _read_origin()
    url = str(origin.get("url", ""))
    if url.startswith("file://") and "dir_info" in origin:
        from urllib.parse import urlparse
        from urllib.request import url2pathname

        path = shlex.quote(f"{url2pathname(urlparse(url).path)}[{extra}]")
        return f"-e {path}" if origin["dir_info"].get("editable") else path
    if url:
        vcs = origin.get("vcs_info", {})
        source = f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if "vcs" in vcs and "commit_id" in vcs else url
        return shlex.quote(f"{_NAME}[{extra}] @ {source}")
    checkout = Path(__file__).parents[2]
    return shlex.quote(f"{checkout}[{extra}]") if (checkout / "pyproject.toml").is_file() else None


def _read_origin() -> dict[str, Any]:
    """Return the content of `direct_url.json`; empty if there is none."""
    try:
        found = json.loads(distribution(_NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
