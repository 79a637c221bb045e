"""What `workbench doctor --check` says of datasets elsewhere: whether they can be opened."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.store.discovery import EvalSetEntry

_PATIENCE = 10.0  # seconds for all of them: they are asked at the same time


def reach_addresses(entries: Iterable[EvalSetEntry]) -> Mapping[str, str | None]:
    """Why a set that is an address cannot be read, by what the set is called; None where it can be."""
    addresses = {entry.relative: entry.address for entry in entries if entry.address is not None}
    answers: SimpleQueue[tuple[str, str | None]] = SimpleQueue()
    for name, address in addresses.items():
        # Clients of storages cannot be interrupted: one that hangs is left behind.
        threading.Thread(target=_reach, args=(name, address, answers), daemon=True).start()
    silent = f"cannot read it: no answer within {_PATIENCE:g} s"
    found: dict[str, str | None] = {name: f"{name}: {silent}" for name in addresses}
    until = time.monotonic() + _PATIENCE
    for _ in addresses:
        try:
            name, problem = answers.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            break
        found[name] = problem
    return found


def _reach(name: str, address: str, answers: SimpleQueue[tuple[str, str | None]]) -> None:
    from workbench.store.datasets import reach_dataset
    from workbench.store.datasets.remote import said_by
    from workbench.store.errors import StoreError

    problem = None
    try:
        reach_dataset(address)
    except StoreError as error:
        problem = error.said_of(name)
    except Exception as error:  # clients of storages raise what they like
        problem = f"{name}: cannot read it: {said_by(error)}"
    answers.put((name, problem))
