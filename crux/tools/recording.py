"""What is kept of a tool call once it is over: figures (seed 11.6, protocol contract 10 and 11)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from attrs import frozen

from crux.domain.tokens import of_size
from crux.tools.pipeline import Finished
from crux.tools.registry import Call

# Takes the label of a call, whether it went well, its seconds, and its tokens both ways.
Observe = Callable[[str, bool, float, int], None]

_encode = msgspec.json.Encoder().encode


@frozen
class Recorder:
    """Hands a finished call on to whoever counts it. Nothing here waits, and a full mailbox loses a record, never a
    call."""

    observe: Observe

    def __call__(self, call: Call, finished: Finished) -> None:
        tokens_in = of_size(len(_encode(finished.arguments)))
        tokens_out = of_size(finished.output_bytes)
        self.observe(finished.label, finished.ok, finished.elapsed_s, tokens_in + tokens_out)
