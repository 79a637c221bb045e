"""Where the sample agents are: inside the package when it was installed from a wheel, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

import workbench


def bundled_folder(name: str) -> Path:
    """The folder of that name that comes with workbench. Raises FileNotFoundError for a broken installation."""
    package = Path(workbench.__file__).parent
    for folder in (package / "_bundled" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{name} does not come with this installation of workbench; install it again")
