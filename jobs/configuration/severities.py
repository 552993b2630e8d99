"""How bad a finding of an incident is, by its kind and for how long it lasts: docs/incidents.md.

The key `severities` of the configuration overrides what is here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from schemas import incidents

INFO, TICKET, PAGE = incidents.SEVERITIES


@dataclass(frozen=True)
class Severity:
    """After how long a finding is worth a ticket, or a page; None: never."""

    ticket: timedelta | None = None
    page: timedelta | None = None

    def __str__(self) -> str:
        """As the configuration has it."""
        told = {TICKET: self.ticket, PAGE: self.page}
        return (
            ", ".join(
                f"{name}={after.total_seconds():.0f}s"
                for name, after in told.items()
                if after is not None
            )
            or INFO
        )

    def at(self, lasted: timedelta) -> str:
        """The severity of a finding that has lasted for so long."""
        if self.page is not None and lasted >= self.page:
            return PAGE
        return TICKET if self.ticket is not None and lasted >= self.ticket else INFO

    def next_after(self, lasted: timedelta) -> timedelta | None:
        """After how long it is worse; None if it never is."""
        later = [each for each in (self.ticket, self.page) if each is not None and each > lasted]
        return min(later, default=None)


_AT_ONCE, _MINUTE = timedelta(0), timedelta(minutes=1)

NOTHING_RECORDED: Final = "nothing_recorded"
"""That the record of a cluster is old. It is no finding, since nobody looks: `explain` says it."""

SEVERITIES: Final[Mapping[str, Severity]] = {
    "partition_offline": Severity(page=_AT_ONCE),
    "under_min_isr": Severity(ticket=_AT_ONCE, page=_MINUTE),
    "unclean_election": Severity(page=_AT_ONCE),
    "quorum_lost": Severity(page=_AT_ONCE),
    "quorum_flapping": Severity(ticket=_AT_ONCE),
    "broker_missing": Severity(ticket=_MINUTE),
    "stale_broker": Severity(ticket=_MINUTE),
    "log_dir_failed": Severity(ticket=_AT_ONCE),
    "group_stuck": Severity(ticket=_AT_ONCE),
    "group_stopped": Severity(ticket=_AT_ONCE),
    "stuck_transaction": Severity(ticket=_AT_ONCE),
    "one_in_sync": Severity(ticket=_AT_ONCE),
    "crash_loop": Severity(ticket=_AT_ONCE),
    "group_behind": Severity(),
    "lone_setting": Severity(),
    "throttle_left": Severity(ticket=_AT_ONCE),
    "shared_rack": Severity(),
    NOTHING_RECORDED: Severity(page=timedelta(minutes=5)),
}
"""Kind of a finding that opens an incident, or is one beside them -> its severity. All others are
info.
"""
