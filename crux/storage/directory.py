"""The data directory: private, and held by one daemon at a time (Decision 14)."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from crux.errors import StartRefused

LOCK = "crux.lock"
LOOKED_AT_S = 0.05


@contextmanager
def hold(directory: Path, holder: Mapping[str, object]) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """Make `directory` where it is missing (0700) and hold it for as long as the context lasts.

    `holder` is written into the lock file for whoever comes second; calling what the context gives replaces it. Raises
    `StartRefused` when the directory cannot be used or another daemon holds it. The operating system lets go of the
    lock when the process ends, however it ends.
    """
    lock = _open_lock(directory)
    try:
        try:
            _take(lock)
        except BlockingIOError:
            raise StartRefused(
                f"{directory} is in use by another daemon ({describe(holder_of(directory))}); stop it, "
                "or set CORECRUXD_DATA_DIR to another directory"
            ) from None
        try:
            _write_holder(lock, holder)
        except OSError as error:
            raise StartRefused(f"the data directory {directory} takes no more ({error.strerror}); make room") from error
        yield partial(_write_holder, lock)
    finally:
        os.close(lock)


def holder_of(directory: Path) -> Mapping[str, object]:
    """What the last daemon that held `directory` wrote about itself; empty where there is nothing to read."""
    try:
        found = json.loads((directory / LOCK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_held(directory: Path) -> bool:
    """Whether a daemon holds `directory` now."""
    try:
        lock = os.open(directory / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def describe(holder: Mapping[str, object]) -> str:
    """A holder as text: `pid 4711, http 127.0.0.1:14800`."""
    return ", ".join(f"{name} {value}" for name, value in holder.items()) or "unknown"


def _take(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(LOOKED_AT_S)  # somebody may only have looked whether it is held
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _write_holder(lock: int, holder: Mapping[str, object]) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps(holder).encode(), 0)


def _open_lock(directory: Path) -> int:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartRefused(
            f"the data directory {directory} cannot be used ({error.strerror}); set CORECRUXD_DATA_DIR to one that "
            "this user may write"
        ) from error
