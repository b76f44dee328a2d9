"""The settings of what is recorded of tool calls (protocol contract 7 and 11)."""

from attrs import frozen

from crux.config import parsers
from crux.config.declaration import Group, setting


@frozen(kw_only=True, slots=False)
class RecordingSettings:
    """The part of `Settings` that is about traces, the ledger and envelopes."""

    tool_traces: bool = setting(
        True,
        env="CORECRUXD_FEATURE_TOOL_TRACES",
        group=Group.RECORDING,
        parse=parsers.flag,
        keep_empty=True,
        meaning="Keeps each agent's newest calls in memory, also for the dynamic tool list.",
    )
    tool_traces_ttl_s: int = setting(
        3600,
        env="CORECRUXD_FEATURE_TOOL_TRACES_TTL_SECS",
        group=Group.RECORDING,
        parse=parsers.whole(0),
        meaning="Seconds that a call is kept there.",
    )
    tool_ledger: bool = setting(
        False,
        env="CORECRUXD_FEATURE_TOOL_LEDGER",
        group=Group.RECORDING,
        parse=parsers.flag,
        keep_empty=True,
        meaning="Writes each call, and each list of tools that differs from the last, into the agent's ledger in the "
        "database: hashes and sizes, not what was said.",
    )
    tool_ledger_raw_args: bool = setting(
        False,
        env="CORECRUXD_TOOL_LEDGER_RAW_ARGS",
        group=Group.RECORDING,
        parse=parsers.flag,
        keep_empty=True,
        meaning="Writes the arguments themselves there too, up to 16 KiB of a call.",
    )
    audit_envelope: bool = setting(
        False,
        env="CORECRUXD_FEATURE_AUDIT_ENVELOPE",
        group=Group.RECORDING,
        parse=parsers.flag,
        keep_empty=True,
        meaning="Puts beside the results of some tools which facts and receipts they draw on (`_meta.envelope`).",
    )
