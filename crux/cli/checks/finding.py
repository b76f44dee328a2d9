"""What a check says."""

from enum import Enum

from attrs import frozen


class Verdict(Enum):
    """How much it matters: nothing to do, worth a look, or broken."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@frozen
class Finding:
    """What one check found, and how to mend it (empty where there is nothing to mend, or `text` says it)."""

    verdict: Verdict
    text: str
    mend: str = ""


def ok(text: str) -> Finding:
    """All is well."""
    return Finding(Verdict.OK, text)


def warn(text: str, mend: str = "") -> Finding:
    """It works, but not as well or as safely as it should."""
    return Finding(Verdict.WARN, text, mend)


def fail(text: str, mend: str = "") -> Finding:
    """It does not work."""
    return Finding(Verdict.FAIL, text, mend)
