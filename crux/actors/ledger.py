"""Where the ledger's entries go in: the way from a call, which must not wait, to the Observations."""

from attrs import frozen

from crux.actors.failures import FailureCount
from crux.actors.mailbox import Mailbox
from crux.actors.observations import AppendObservation
from crux.domain.ledger import Invocation, Offer, observation_of
from crux.domain.observations import ledger_of


@frozen
class Ledger:
    """Tells the Observations, and counts in `lost` what they have no room for. Owns no other state."""

    observations: Mailbox
    lost: FailureCount

    def record(self, event: Invocation | Offer) -> None:
        """Put an entry into the ledger of the passport it names; never waits and never raises.

        An offer that equals the last one of its passport is left out.
        """
        mark = event.set_hash if isinstance(event, Offer) else None
        if self.observations.tell(AppendObservation(ledger_of(event.passport), observation_of(event), mark)):
            self.lost.worked()
        else:
            self.lost.failed(1, f"the mailbox of {self.observations.name} is full")
