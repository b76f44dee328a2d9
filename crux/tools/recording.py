"""What is kept of a tool call once it is over: figures, usage, a trace, the ledger (seed 11.6, protocol 10 and 11)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from attrs import frozen

from crux.actors.ledger import Ledger
from crux.actors.mailbox import Mailbox
from crux.actors.meter import RecordUsage
from crux.actors.traces import RecordTrace
from crux.domain.canonical import canonical_json
from crux.domain.ledger import invocation
from crux.domain.tokens import of_size
from crux.domain.traces import Effect, trace_of
from crux.domain.usage import declared_budget
from crux.tools.pipeline import Finished
from crux.tools.registry import Call

# Takes the label of a call, whether it went well, its seconds, and its tokens both ways.
Observe = Callable[[str, bool, float, int], None]


@frozen
class Recorder:
    """Hands a finished call on to whoever counts and keeps it; without `traces` or a `ledger` there are none.

    Nothing here waits, and a full mailbox loses a record, never a call.
    """

    observe: Observe
    meter: Mailbox
    traces: Mailbox | None = None
    ledger: Ledger | None = None
    raw_args: bool = False

    def __call__(self, call: Call, finished: Finished) -> None:
        key, arguments = call.passport_key, finished.arguments
        text = canonical_json(arguments)
        tokens_in, tokens_out = of_size(len(text)), of_size(finished.output_bytes)
        self.observe(finished.label, finished.ok, finished.elapsed_s, tokens_in + tokens_out)
        self.meter.tell(RecordUsage(key, tokens_in, tokens_out, declared_budget(arguments) or 0))
        if self.traces is None and self.ledger is None:
            return
        trace = trace_of(
            finished.name,
            Effect.TOOL_DISPATCH if finished.tool is None else finished.tool.effect,
            arguments,
            text,
            ok=finished.ok,
            ts_us=call.services.clock.now_us(),
            response_tokens=tokens_out,
        )
        if self.traces is not None:
            self.traces.tell(RecordTrace(key, trace))
        if self.ledger is not None:
            self.ledger.record(
                invocation(
                    trace.entry(),
                    arguments,
                    text,
                    label=finished.label,
                    passport=key,
                    result_bytes=finished.output_bytes,
                    elapsed_s=finished.elapsed_s,
                    request_id=_plain(finished.request_id),
                    raw_args=self.raw_args,
                )
            )


def _plain(request_id: bytes) -> str | int | float | None:
    """A request's id where it is a text or a number, as JSON-RPC means it to be, and no number beyond all bounds."""
    try:
        value = msgspec.json.decode(request_id)
    except msgspec.ValidationError:
        return None
    return value if isinstance(value, str | int | float) else None
