"""When polls are due and what they are called: pure functions of the clock that the caller reads.

A stream's offset says which batch of polls was planned last. It carries the options of that batch, so that running the
batch again polls what was planned, whatever the options are by then, but for how clusters are reached. Times are
milliseconds since the epoch, UTC.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Self

OFFSET_VERSION: Final = 2
_ONE_INTERVAL: Final = 1
"""The version of before clusters had intervals of their own."""
_START: Final = "%Y%m%dT%H%M%SZ"
_CLOCKS_APART_MS: Final = 1_000
"""How far a worker's clock may be behind the driver's before the beat is the worker's own."""
_LEAST_POLL_S: Final = 2.5
"""Of a poll, however soon the next batch is due: a worker that has just started needs a while."""
_APART_MS: Final = 25
"""From when one cluster is due to when the next one is."""
_SPREAD_PART: Final = 4
"""All clusters are due within the first of so many parts of the beat."""


def mint_stream(now: datetime, newest: str | None = None) -> str:
    """Name a new stream: its start in UTC to the second, then eight random hex digits; names sort by start.

    It sorts after the stream `newest`, whose name has a later start than `now` where a clock was ahead: then it is
    named a second after that.
    """
    start = now.astimezone(UTC)
    if newest is not None:
        start = max(
            start, datetime.strptime(newest.partition("-")[0], _START).replace(tzinfo=UTC) + timedelta(seconds=1)
        )
    return f"{start:{_START}}-{secrets.token_hex(4)}"


def poll_id(stream: str, n: int) -> str:
    """Name poll `n` of a stream. Twelve digits keep the order as text for 30,000 years of one poll a second."""
    return f"{stream}/{n:012d}"


def day_of(scheduled_ms: int) -> date:
    """Return the day, in UTC, that all rows of a batch share whose first poll is due then."""
    return datetime.fromtimestamp(scheduled_ms / 1000, UTC).date()


@dataclass(frozen=True, slots=True)
class Offset:
    """A planned batch: polls `first` to `next - 1` of `stream`. Before the first batch there is no stream yet."""

    stream: str | None = None
    first: int = 0
    next: int = 0
    scheduled_ms: int | None = None
    """When poll `first` is to be sent."""
    due_ms: int | None = None
    """When poll `next` is to be sent."""
    since_ms: int | None = None
    """When all clusters were due together: with the first poll since the query was started. From there on each is due
    after every interval of its own.
    """
    before_ms: int | None = None
    """When the poll before `first` was due; None if all clusters are due with `first`."""
    options: dict[str, str] = field(default_factory=dict)
    """The options of the batch, as they were given: secrets are references there."""

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps in the checkpoint."""
        return {"version": OFFSET_VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, offset: dict[str, Any]) -> Self:
        """Read what `to_json` writes, or wrote when clusters had one interval. Raises ValueError for any other."""
        fields = dict(offset)
        version = fields.pop("version", None)
        if version == _ONE_INTERVAL:
            fields |= {"since_ms": fields.get("scheduled_ms"), "before_ms": None}
        if version not in {_ONE_INTERVAL, OFFSET_VERSION} or fields.keys() != cls.__dataclass_fields__.keys():
            raise ValueError(
                f"the checkpoint holds an offset of version {version!r} and this kafka_metadata writes "
                f"{OFFSET_VERSION}: "
                "start the query with a new checkpoint"
            )
        return cls(**fields)


def due_at(start: Offset, now_ms: int, interval_ms: int, polls: int) -> int:
    """Return when the first poll of the batch after `start` is due: on the beat of `start`, and never a missed tick.

    The past means at once. Where several ticks were missed it is the last of them: those before it get no number. A due
    time that no schedule of today could have set (the clock was set back, or the interval was longer) means at once
    too.
    """
    if start.due_ms is None or start.due_ms - now_ms > interval_ms * polls:
        return now_ms
    missed = max(0, now_ms - start.due_ms) // interval_ms
    return start.due_ms + missed * interval_ms


def plan(
    start: Offset,
    scheduled_ms: int,
    interval_ms: int,
    polls: int,
    options: dict[str, str],
    *,
    begins: bool = False,
    newest: str | None = None,
) -> Offset:
    """Return the batch of `polls` polls that follows `start`, its first poll at `scheduled_ms`.

    Mints the stream if `start` has none, to come after the stream `newest`: then its start is the first poll's time.
    With that poll all clusters are due if the query `begins` with it, or if it is not on the beat of those before (the
    clock was set back).
    """
    since, before = start.since_ms, None if start.due_ms is None else start.due_ms - interval_ms
    if begins or since is None or before is None or scheduled_ms <= before or (scheduled_ms - since) % interval_ms:
        since, before = scheduled_ms, None
    return Offset(
        stream=start.stream or mint_stream(datetime.fromtimestamp(scheduled_ms / 1000, UTC), newest),
        first=start.next,
        next=start.next + polls,
        scheduled_ms=scheduled_ms,
        due_ms=scheduled_ms + interval_ms * polls,
        since_ms=since,
        before_ms=before,
        options=options,
    )


def ticks(scheduled_ms: int, now_ms: int, interval_ms: int, polls: int) -> list[int]:
    """Return when each poll of a planned batch is to be sent, given when its task begins.

    A task that begins less than an interval late sends its first poll at once and keeps the beat; later than that (a
    batch that is run again, a task that waited for a slot) the whole beat starts now, or its polls would fall together.
    It starts now too where `scheduled_ms` lies well ahead: a batch is planned only once it is due, so this machine's
    clock is behind the driver's, by whatever it takes.
    """
    begin = scheduled_ms if -_CLOCKS_APART_MS < now_ms - scheduled_ms < interval_ms else now_ms
    return [begin + index * interval_ms for index in range(polls)]


def spread(clusters: int, beat_ms: int) -> list[int]:
    """Return how long after each tick of the beat so many clusters are due, one after the other in their order.

    If many were due at one moment, nearly all of them would wait for the processor. They are 25 ms apart, and closer
    where that would take more than a quarter of the beat: half of it is for the answer of each, and the rest for the
    commit. As long as they are 25 ms apart, those that come after a cluster in the order do not matter to it.
    """
    window_ms = min(clusters * _APART_MS, beat_ms // _SPREAD_PART)
    return [place * window_ms // clusters for place in range(clusters)]


@dataclass(frozen=True, slots=True)
class Turn:
    """A planned poll of one cluster: its `number` in the stream, the time since which intervals are counted, and how
    many intervals of the cluster had passed by then, and by its poll before (-1 if there was none since).
    """

    number: int
    since_ms: int
    passed: int
    passed_before: int

    def follows(self, other: Turn | None) -> bool:
        """Whether `other` is the cluster's poll before. False where that is not known: the query was started since."""
        return other is not None and (self.since_ms, self.passed_before) == (other.since_ms, other.passed)

    def is_due(self, every_ms: int, interval_ms: int) -> bool:
        """Whether what is to be asked so often is to be asked with this poll, the first at or after its time."""
        return self.passed * interval_ms // every_ms > self.passed_before * interval_ms // every_ms


def turns(planned: Offset, interval_ms: int, beat_ms: int) -> dict[int, Turn]:
    """Return the polls of a planned batch that are of a cluster with this interval: place in the batch -> its turn.

    A cluster is due with the first poll at or after its time: polls on the beat may have been missed, and get no
    number.
    """
    since, scheduled = planned.since_ms, planned.scheduled_ms
    if since is None or scheduled is None:
        raise ValueError("a planned batch has a time")
    before = -1 if planned.before_ms is None else (planned.before_ms - since) // interval_ms
    found = {}
    for index in range(planned.next - planned.first):
        passed = (scheduled + index * beat_ms - since) // interval_ms
        if passed > before:
            found[index] = Turn(planned.first + index, since, passed, before)
            before = passed
    return found


def latest_end(now_s: float, next_batch_s: float, beat_s: float) -> float:
    """Return when a poll that begins now has to end, on the clock of these times.

    Half of the beat before its cluster is due with the next batch, which waits until this one is committed. 2.5 s is
    the least.
    """
    return max(now_s + _LEAST_POLL_S, next_batch_s - beat_s / 2)
