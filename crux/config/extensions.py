"""What the variables are for that are read anew for each call of an extension (Decision 24)."""

from collections.abc import Mapping
from typing import Final

# What each member of `OutboundConfig` is for; the variables of it are not settings, since no start reads them.
CALL_MEANINGS: Final[Mapping[str, str]] = {
    "timeout_s": "Seconds for a whole call: resolving, connecting, TLS, sending and reading.",
    "max_request_bytes": "Largest request in bytes, with all that is around the arguments.",
    "max_response_bytes": "Largest answer in bytes; a manifest can only lower it.",
    "default_rate_per_min": "Calls a minute of one passport to one extension, for grants without a rate.",
    "allow_plain_http": "Whether endpoints may be called without TLS, for development.",
    "allow_unsigned": "Whether manifests without a signature may be installed, for development.",
    "private_hosts": "Names (comma list) that may lead to loopback and private addresses; `*` is every name.",
}
