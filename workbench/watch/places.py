"""Places where the system tells nobody that a file has changed: somebody else's disk, seen through a network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Shares of other machines and of the host of a virtual machine; `9p` is what WSL mounts the drives of Windows with.
_SILENT = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "drvfs", "fakeowner", "glusterfs", "gpfs", "grpcfuse", "lustre", "ncpfs"),
    *("nfs", "nfs4", "osxfs", "prl_fs", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"),
}


def silent_devices() -> dict[int, str]:
    """The numbers of the devices that send no events for what others do to them, with the type of their file system."""
    found: dict[int, str] = {}
    if sys.platform != "linux":
        return found
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return found
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.partition(" ")[0]
        if len(fields) > 4 and (kind in _SILENT or kind.startswith("fuse.")):
            major, _, minor = fields[2].partition(":")
            found[os.makedev(int(major), int(minor))] = kind
    return found


def is_share(path: str) -> bool:
    """Whether a path is that of a share of another machine, as Windows writes it."""
    return path.startswith("\\\\")
