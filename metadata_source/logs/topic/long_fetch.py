"""Fetches that leaders hold until something comes: one to each leader of a topic, all at once, over
connections of their own. A broker answers the requests of a connection in their order, so nothing
else is asked over these.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from metadata_source.addresses import format_address
from metadata_source.broker_errors import error_name
from metadata_source.connections import Connections
from metadata_source.errors import PollError
from metadata_source.logs.topic.batches import Unreadable, read_answers
from metadata_source.questions import FetchFrom, fetch, fetched
from metadata_source.transport import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa

    from metadata_source.addresses import Address
    from metadata_source.options import Cluster
    from metadata_source.questions import Asked, FetchedPartition

_ANSWER_BYTES: Final = 1 << 20
_PARTITION_BYTES: Final = 1 << 18
"""More than that is news, whatever it is: then a batch reads it."""
_GRACE_S: Final = 5.0
"""A leader that has not answered so long after it was to answer hangs; so does one that is
connected to for so long.
"""
_AVOIDED_S: Final = 5.0
"""How long a leader is not asked that failed: it keeps nobody else's news meanwhile."""


class Ends(NamedTuple):
    """Where partitions begin and end, by leaders that answered last, and whether there is news."""

    begins: dict[int, int]
    ends: dict[int, int]
    is_news: bool


class LongFetch:
    """Waits at one cluster's leaders, again and again. Of one thread at a time, but for `wake`."""

    def __init__(
        self, cluster: Cluster, topic: str, has_news: Callable[[pa.RecordBatch], bool]
    ) -> None:
        """Ask nobody yet. `has_news`: whether `record_batches.RECORDS` are worth a batch."""
        self._topic, self._has_news = topic, has_news
        self._loop = Loop(cluster.client_id)
        self._connections = Connections(cluster, self._loop)
        self._leaders: Mapping[Address, Iterable[tuple[int, int]]] = {}
        self._from: Mapping[int, int] = {}
        self._next: dict[int, int] = {}
        """By partition, the offset up to which nothing is news."""
        self._under_way: dict[Address, Asked] = {}
        self._free_at: dict[Address, float] = {}
        """Until when a leader is not asked that throttles (KIP-219), or that failed."""

    def news(
        self,
        leaders: Mapping[Address, Iterable[tuple[int, int]]],
        offsets: Mapping[int, int],
        seconds: float,
    ) -> Ends:
        """Wait until records come, for so long at most, and return what leaders that answered know:
        whether some of the records from `offsets` on are news. Raises PollError where a leader does
        not answer, or is none.

        `leaders`: partitions with the epochs of their leader. A fetch that was not answered waits
        on.
        """
        until = time.monotonic() + seconds
        if leaders != self._leaders:
            self._drop_all()
            self._leaders = {address: list(led) for address, led in leaders.items()}
        if offsets != self._from:
            self._from, self._next = offsets, dict(offsets)
        while True:
            self._ask(seconds)
            now = time.monotonic()
            ahead = min([until, *(at for at in self._free_at.values() if at > now)])
            self._loop.wait([each.pending for each in self._under_way.values()], ahead - now)
            done = [address for address, each in self._under_way.items() if each.pending.is_done]
            answered = {
                each["partition_index"]: each for address in done for each in self._answer(address)
            }
            is_news = self._is_news(answered)
            has_come = is_news or any(each["records"] for each in answered.values())
            if has_come or self._loop.is_woken or time.monotonic() >= until:
                # Before Fetch v5 the first ones are not there.
                begins = {
                    number: each.get("log_start_offset", -1) for number, each in answered.items()
                }
                return Ends(
                    {number: begin for number, begin in begins.items() if begin >= 0},
                    {number: each["high_watermark"] for number, each in answered.items()},
                    is_news,
                )

    def wake(self) -> None:
        """End `news`, from another thread, and every one after it."""
        self._loop.wake()

    def close(self) -> None:
        """Close the connections. Nothing can be asked afterwards."""
        self._drop_all()
        self._loop.close()

    def _ask(self, seconds: float) -> None:
        """Ask the leaders that are not asked yet."""
        for address, led in self._leaders.items():
            now = time.monotonic()
            wanted = [
                FetchFrom(each, self._next[each], epoch)
                for each, epoch in led
                if each in self._next
            ]
            if not wanted or address in self._under_way or self._free_at.get(address, now) > now:
                continue
            self._free_at.pop(address, None)
            question = fetch(
                self._topic,
                wanted,
                most_bytes=_ANSWER_BYTES,
                partition_bytes=_PARTITION_BYTES,
                wait_s=seconds,
            )
            try:
                connection = self._connections.get(address, now + _GRACE_S)
                self._under_way[address] = question.begin(
                    connection, time.monotonic() + seconds + _GRACE_S
                )
            except PollError:
                self._avoid(address)
                raise

    def _answer(self, address: Address) -> list[FetchedPartition]:
        """Return what a leader answered, by partition. Raises PollError."""
        try:
            response = self._under_way.pop(address).response()
            partitions = _checked(response, address)
        except PollError:
            self._avoid(address)
            raise
        if response.throttle_time_ms:
            self._free_at[address] = time.monotonic() + response.throttle_time_ms / 1000
        return partitions

    def _is_news(self, answered: Mapping[int, FetchedPartition]) -> bool:
        """Whether some records are news, cannot be read, which whoever reads them says, or are more
        than came.
        """
        is_news = False
        for found in read_answers(
            {number: each["records"] for number, each in answered.items() if each["records"]}
        ):
            if isinstance(found, Unreadable):
                return True
            is_news = is_news or self._has_news(found.records)
            for partition, after in found.after.items():
                self._next[partition] = max(after, self._next[partition])
        return is_news or any(
            self._next[number] < each["high_watermark"] for number, each in answered.items()
        )

    def _avoid(self, address: Address) -> None:
        self._connections.drop(address)
        self._free_at[address] = time.monotonic() + _AVOIDED_S

    def _drop_all(self) -> None:
        self._connections.close()
        self._under_way.clear()
        self._free_at.clear()


def _checked(response: Any, address: Address) -> list[FetchedPartition]:
    """Return the partitions of an answer. Raises PollError for an error of one."""
    partitions = fetched(response)
    for code in (response.error_code, *(each["error_code"] for each in partitions)):
        if code:
            raise PollError(
                "broker_error", f"{format_address(address)}: error {code} ({error_name(code)})"
            )
    return partitions
