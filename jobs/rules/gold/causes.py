"""Why a broker is out of an ISR: inferred from what polls show until some time after it left.

On a controlled stop the ISR shrinks at once, while the broker stays listed for another half second. So a cause is
decided when the look-ahead is over, by the signs that were seen until then.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from jobs.rules.gold.news import Row

LOOK_AHEAD = timedelta(seconds=15)
LOOK_AHEAD_POLLS = 2

# Signs.
GONE = "gone"  # The broker was not listed.
OFFLINE = "offline"  # It was among the partition's offline replicas.
FAILED = "failed"  # It lost a leadership as only a failed broker does: it may be back before a poll misses it.
BACK = "back"  # A later poll showed it in the ISR again.
TOGETHER = "together"  # Other brokers left ISRs of the same leader in the same poll.


def due_at(began_before: datetime, interval_ms: int | None) -> datetime:
    """The time until which signs count: two intervals between polls or 15 s, whichever is more."""
    return began_before + max(LOOK_AHEAD, timedelta(milliseconds=LOOK_AHEAD_POLLS * (interval_ms or 0)))


def is_open(absence: Row, at: datetime) -> bool:
    """Whether a poll that was answered `at` may still give signs of the cause. `absence`: a row of gold.isr_changes."""
    return absence["cause"] is None and at <= absence["cause_due_at"]


def give_sign(absences: Iterable[Row], sign: str) -> None:
    """Note in rows of gold.isr_changes what a poll showed."""
    for absence in absences:
        absence["signs"] = sorted({*absence["signs"], sign})


def give_signs_of_state(absences: Iterable[Row], state: Row) -> None:
    """Note what the state that absences began with, or a later one of their partition, shows of the brokers."""
    for absence in absences:
        if absence["broker_id"] in (state["offline_replicas"] or ()):
            give_sign([absence], OFFLINE)
        if absence["broker_id"] in state["isr"]:
            give_sign([absence], BACK)


def tell_together(left: Iterable[Row], absences: Iterable[Row]) -> None:
    """Give the sign to those of `absences` of whose leader's ISRs several brokers `left`. All began with one poll."""
    brokers: defaultdict[int, set[int]] = defaultdict(set)
    for absence in left:
        brokers[absence["leader"]].add(absence["broker_id"])
    give_sign([absence for absence in absences if len(brokers[absence["leader"]]) > 1], TOGETHER)


def cause(absence: Row) -> str:
    """The cause by all signs: broker_down | leader_stalled | lagging.

    A leader that was hung blames followers that did nothing: they leave at once, and are back.
    """
    signs = set(absence["signs"])
    if signs & {GONE, OFFLINE, FAILED}:
        return "broker_down"
    is_alone = absence["isr"] == [absence["leader"]]
    return "leader_stalled" if is_alone and signs >= {TOGETHER, BACK} else "lagging"
