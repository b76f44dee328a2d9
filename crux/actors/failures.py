"""Failures that no caller hears of: all are counted, and of each run of them the start and the end are logged."""

from __future__ import annotations

from attrs import define

from crux.logs import get_logger

log = get_logger("crux.failures")


@define
class FailureCount:
    """How often `what` failed, over all restarts of who does it; only the trio thread touches it."""

    what: str
    total: int = 0
    _in_run: int = 0

    def failed(self, times: int, why: str) -> None:
        if not self._in_run:
            log.warning("began to fail; further failures are only counted", what=self.what, why=why)
        self._in_run += times
        self.total += times

    def worked(self) -> None:
        if self._in_run:
            log.info("works again", what=self.what, failures=self._in_run)
            self._in_run = 0
