"""A complete external tool for Crux: it answers with a quote of the day, and asks to keep it as a fact.

    python docs/examples/quote.py [--port 9000]

It serves on 127.0.0.1 until Ctrl-C. Its manifest is quote.json beside it; docs/extensions.md says how to install it.
"""

from __future__ import annotations

import argparse
import signal
from datetime import UTC, datetime
from functools import partial

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from quart import request
from quart_trio import QuartTrio

TOOL = "ext.example.quote.daily"
QUOTES = {
    "engineering": ("Simplicity is a discipline.", "Make the wrong thing hard to write."),
    "patience": ("The slow river still reaches the sea.", "Measure twice; the cloth does not grow back."),
}
MOST_BODY_BYTES = 64 * 1024
MOST_TOPIC = 40

# What the endpoint answers: a document, and a status.
Answer = tuple[dict[str, object], int]

app = QuartTrio(__name__)
app.config["MAX_CONTENT_LENGTH"] = MOST_BODY_BYTES


@app.post("/crux/invoke")
async def invoke() -> Answer:
    """One call. The daemon sends `tool`, `args`, `calling_passport_id` and `request_id`."""
    body = await request.get_json(force=True, silent=True)
    if not isinstance(body, dict):
        return refused("the body has to be a JSON object")
    if body.get("tool") != TOOL:
        return refused(f"this endpoint has one tool, {TOOL}")
    # The daemon shows the input_schema to agents and checks nothing against it: that is our part.
    args = body.get("args")
    if not isinstance(args, dict):
        return refused("args has to be an object")
    topic = args.get("topic")
    if topic is not None and not (isinstance(topic, str) and len(topic) <= MOST_TOPIC):
        return refused(f"topic has to be a text of at most {MOST_TOPIC} characters")
    if topic is not None and topic not in QUOTES:
        return refused(f"topic has to be one of: {', '.join(QUOTES)}")
    return answer(topic, datetime.now(UTC)), 200


def answer(topic: str | None, now: datetime) -> dict[str, object]:
    """The result for the agent, and the facts that we ask the daemon to keep.

    It depends on the topic and the day alone, so a call that is made twice leaves nothing behind that differs. Another
    endpoint would remember each request_id, and answer it the second time as the first.
    """
    chosen = topic or "engineering"
    quote = QUOTES[chosen][now.toordinal() % len(QUOTES[chosen])]
    writes = [
        {"entity": f"personal::quotes::{now:%Y-%m-%d}", "key": chosen, "value": quote, "confidence": 0.9},
    ]
    if topic is not None:
        # Where the operator has not granted quote-topics::, this write is dropped and counted; the call still succeeds.
        writes.append({"entity": "quote-topics::latest", "key": "topic", "value": topic})
    return {"result": {"quote": quote, "topic": chosen}, "fact_writes": writes}


def refused(reason: str) -> Answer:
    """A status outside 200 to 299 is a failed call; the agent is shown the first 512 characters of this document."""
    return {"error": reason}, 400


async def main(port: int) -> None:
    """Serve until SIGINT or SIGTERM."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        await serve(app, config, shutdown_trigger=partial(anext, signals))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serve the quote of the day to Crux.")
    parser.add_argument("--port", type=int, default=9000, help="port on 127.0.0.1, 0 for a free one (default: 9000)")
    trio.run(main, parser.parse_args().port)
