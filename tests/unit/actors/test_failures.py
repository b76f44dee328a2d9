"""Failures that are counted, each run of them logged once."""

import structlog.testing

from crux.actors.failures import FailureCount


def test_of_each_run_of_failures_the_start_and_the_end_are_logged() -> None:
    count = FailureCount("observations")
    with structlog.testing.capture_logs() as logs:
        count.worked()
        count.failed(2, "full")
        count.failed(3, "full")
        count.worked()
        count.worked()
        count.failed(1, "gone")
    assert [(entry["log_level"], entry.get("why"), entry.get("failures")) for entry in logs] == [
        ("warning", "full", None),
        ("info", None, 5),
        ("warning", "gone", None),
    ]
    assert count.total == 6
