"""News of a poll, checked at once with other brokers: nothing becomes history because one broker
says so.

An answer that differs from the poll before has news, or is older than that. The broker that
answered the poll before is asked about the topics that differ: it shows whether the news are news,
and whether it was itself behind when it said that nothing had changed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.addresses import format_address
from metadata_source.brokers import AVOIDED_MAX_S, BEHIND_S
from metadata_source.errors import PollError
from metadata_source.images import SAME, Age, Difference, difference, with_topics
from metadata_source.kafka_constants import UNKNOWN_TOPIC_OR_PARTITION
from metadata_source.kinds import KINDS, LEADER
from metadata_source.poll import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime

    from metadata_source.addresses import Address
    from metadata_source.attempts import Attempts
    from metadata_source.brokers import Brokers
    from metadata_source.images import Image
    from metadata_source.poll import Poll
    from metadata_source.protocol.metadata import ClusterMetadata

    Ask = Callable[[Address, Sequence[str] | None], tuple[Poll, PollError | None]]
    """Asks a broker about these topics, or all; the answer, and why there is none."""

_NAMED: Final = 200
"""More topics than this are not asked for by name."""
_ASKED: Final = 3
"""The most brokers that are asked beside the one that answered."""
_WITNESS_S: Final = 1.0
"""The most that one broker takes which is asked beside the one that answered."""
_SPREAD_S: Final = 0.25
"""An image spreads among brokers within this time: they fetch the metadata log without a pause."""


@dataclass(frozen=True, slots=True)
class Known:
    """The image of the poll before, and when the first poll that showed it was answered."""

    image: Image
    at: datetime | None

    def since(self, older: Poll, newer: Poll) -> datetime | None:
        """By when the state was seen that an older answer lacks: that of the poll before, or that
        of the newer answer.

        An older answer that differs from the poll before may have come after that.
        """
        image, other = older.image, newer.image
        is_older = image is not None and other is not None and image.lacks(self.image, other)
        return self.at if is_older else newer.received_at


@dataclass(frozen=True, slots=True)
class Inquiry:
    """An answer with news, from the broker at `address`, and how to ask other brokers about it.

    `known`: the poll before; where it is None, everything is news. `pause` waits until images have
    spread.
    """

    answer: Poll
    address: Address
    known: Known | None
    ask: Ask
    pause: Callable[[], None]

    @property
    def names(self) -> Sequence[str] | None:
        """The topics to ask others about; None, for all, where these are too many to name."""
        if self.known is None or self.answer.image is None:
            return None
        names = self.answer.image.news(self.known.image) or []
        return names if len(names) <= _NAMED else None

    def result(
        self, others: Iterable[Address], *, was_behind: bool
    ) -> tuple[Address, Poll, list[Witness]]:
        """Ask the first of `others` that answers; return where the newer answer is from, that
        answer, and what the others said.

        Where ours is older, the other's replaces it, also if our broker has followed by now and
        so was not behind. Where neither of two can be older (equal leader epochs, and each lists
        the other) a third decides. If there is none, ours is older where its broker `was_behind`
        with the same answer before; else nobody knows. Raises PollError where ours is older and the
        newer one does not come.
        """
        witnesses: list[Witness] = []
        rival: tuple[Address, Poll, Difference] | None = None
        names = self.names
        for address in islice(others, _ASKED):
            other, error = self.ask(address, names)
            if error is not None:
                witnesses.append(
                    Witness(other.broker_id, format_address(address), error_kind=error.kind)
                )
                continue
            at_first = _difference(self.answer, other, names)
            if rival is not None and _difference(rival[1], other, names).age is Age.SAME:
                at_first = replace(at_first, age=Age.OLDER)  # two against ours
            found, older = self._settled(at_first, address, other, names)
            if Age.OLDER in (at_first.age, found.age):
                return self._put_aside(address, other, older, found, witnesses)
            if found.age is Age.UNCLEAR:
                rival = rival or (address, other, found)
                continue
            if rival is not None:
                witnesses.append(self._behind(rival[1], self.answer, rival[2]))
            witnesses.append(
                self._behind(older, self.answer, found)
                if found.age is Age.NEWER
                else Witness.of(other)
            )
            return self.address, self.answer, witnesses
        if rival is not None:
            if was_behind:
                found = replace(rival[2], age=Age.OLDER)
                return self._put_aside(rival[0], rival[1], self.answer, found, witnesses)
            witnesses.append(replace(Witness.of(rival[1]), is_behind=None))
        return self.address, self.answer, witnesses

    def _settled(
        self, found: Difference, address: Address, other: Poll, names: Sequence[str] | None
    ) -> tuple[Difference, Poll]:
        """How ours differs from another answer, once the older of the two had time to follow; what
        that said then.

        `found`: how it differed at first. An image that changes meanwhile has not stopped.
        """
        if found.age is Age.SAME:
            return found, other
        self.pause()
        is_ours = found.age is Age.OLDER
        older = self.answer if is_ours else other
        again, error = self.ask(self.address if is_ours else address, names)
        if error is not None:
            return found, older
        has_moved = _difference(again, older, names).age is not Age.SAME
        return (SAME if has_moved else found), again

    def _behind(self, older: Poll, newer: Poll, found: Difference) -> Witness:
        return Witness.of(
            older,
            found,
            newer.received_at if self.known is None else self.known.since(older, newer),
        )

    def _put_aside(
        self,
        address: Address,
        other: Poll,
        older: Poll,
        found: Difference,
        witnesses: list[Witness],
    ) -> tuple[Address, Poll, list[Witness]]:
        """Return the other's answer in place of ours: of all topics, if it was about some."""
        whole, error = (other, None) if self.names is None else self.ask(address, None)
        if error is not None:
            raise error
        witness = self._behind(older, other, found) if found.age is Age.OLDER else Witness.of(older)
        return address, whole, [*witnesses, witness]


class Witnesses:
    """Checks the answers of one cluster with other brokers, and remembers the last good one.

    `kind`: of the cluster, a key of `KINDS`. `patience_s`: how long a broker gets for its answer.
    """

    def __init__(self, kind: str, brokers: Brokers, attempts: Attempts, patience_s: float) -> None:
        """Know no answer yet."""
        self._kind, self._brokers, self._attempts = kind, brokers, attempts
        self._patience_s = patience_s
        self._known: Known | None = None

    def forget(self) -> None:
        """Forget the last good answer: everything is news then."""
        self._known = None

    def check(self, address: Address, answer: Poll, deadline: float) -> tuple[Address, Poll]:
        """Return the answer of the broker at `address`, or a newer one of another broker, with its
        address and all that others said. Raises PollError.
        """
        brokers, known = self._brokers, self._known
        before, image = brokers.answered, answer.image
        brokers.learn(address, answer)
        source, newest = address, answer
        witnesses: list[Witness] = []
        # Where each broker names leaders of its own, none is behind another.
        is_compared = LEADER not in KINDS[self._kind].not_meaningful
        if is_compared and (known is None or image is None or image.news(known.image) is not None):
            others = [
                each
                for each in dict.fromkeys([before, *brokers.ring(address)])
                if each and each != address
            ]
            inquiry = Inquiry(
                answer,
                address,
                known,
                lambda other, names: self._ask(other, names, answer, deadline),
                lambda: _let_spread(deadline),
            )
            source, newest, witnesses = inquiry.result(
                [other for other in others if not brokers.is_avoided(other)],
                was_behind=image is not None and brokers.behind.get(address) == image,
            )
        if source != address:
            brokers.learn(source, newest)
            brokers.avoid(address, BEHIND_S)
            if image is not None:
                brokers.behind[address] = image
        brokers.behind.pop(source, None)
        if is_compared:
            witnesses += self._check_former(
                newest, source, {each.broker for each in witnesses}, deadline
            )
        if newest.image is not None and (
            known is None or known.image.news(newest.image) is not None
        ):
            self._known = Known(newest.image, newest.received_at)
        return source, replace(newest, witnesses=tuple(witnesses))

    def _ask(
        self, address: Address, names: Sequence[str] | None, answer: Poll, deadline: float
    ) -> tuple[Poll, PollError | None]:
        """Ask another broker than who gave the answer. Its address may be another cluster's now."""
        until = min(deadline, time.monotonic() + min(_WITNESS_S, self._patience_s))
        poll, error = self._attempts.ask(address, until, names)
        if error is None and poll.cluster_id != answer.cluster_id:
            error = PollError(
                "wrong_cluster", f"{format_address(address)}: belongs to cluster {poll.cluster_id}"
            )
        if error is not None:
            poll = replace(poll, broker_id=self._brokers.id_of(address))
        return poll, error

    def _check_former(
        self, answer: Poll, source: Address, asked: Collection[str | None], deadline: float
    ) -> list[Witness]:
        """Ask a broker that is listed no more whether it still answers clients, and how far it is
        behind.

        `source`: where the answer came from. `asked`: those that were asked with this poll already.
        """
        brokers, known = self._brokers, self._known
        former = (each for each in brokers.former if format_address(each) not in asked)
        address = next((each for each in former if not brokers.is_avoided(each)), None)
        if address is None:
            return []
        other, error = self._ask(address, None, answer, deadline)
        if error is not None:
            if error.kind == "wrong_cluster" or brokers.avoided[address].wait >= AVOIDED_MAX_S:
                del brokers.former[address]
            return [Witness(other.broker_id, format_address(address), error_kind=error.kind)]
        brokers.avoid(address, BEHIND_S)
        assert answer.metadata is not None  # noqa: S101 - good polls
        assert other.metadata is not None  # noqa: S101
        found = difference(answer.metadata, answer.broker_id, other.metadata, other.broker_id)
        witness = Witness.of(other)
        if found.age is Age.NEWER and not found.epochs:
            # Only the list says so. The broker may have come back since that was answered: then it
            # knows more.
            _let_spread(deadline)
            again, error = self._ask(source, (), other, deadline)
            if error is not None:
                return [replace(witness, is_behind=None)]
            assert again.metadata is not None  # noqa: S101 - a good poll
            if other.broker_id in again.metadata.brokers["broker_id"].to_pylist():
                return [witness]
        if found.age is Age.NEWER:
            return [
                Witness.of(
                    other,
                    found,
                    answer.received_at if known is None else known.since(other, answer),
                )
            ]
        return [replace(witness, is_behind=None) if found.age is Age.UNCLEAR else witness]


def _difference(one: Poll, other: Poll, names: Sequence[str] | None) -> Difference:
    """How an answer differs from another one about these topics, or all."""
    assert one.metadata is not None  # noqa: S101 - good polls
    assert other.metadata is not None  # noqa: S101
    if names is None and one.image and other.image and one.image.news(other.image) is None:
        return SAME  # as of every first poll; the rest takes as long as the poll itself
    return difference(
        _about(one.metadata, names), one.broker_id, _about(other.metadata, names), other.broker_id
    )


def _about(metadata: ClusterMetadata, names: Sequence[str] | None) -> ClusterMetadata:
    """An answer about these topics, or all; without those that do not exist."""
    topics = metadata.topics
    mask = pc.not_equal(topics["error_code"], UNKNOWN_TOPIC_OR_PARTITION)
    if names is not None:
        mask = pc.and_(mask, pc.is_in(topics["topic"], pa.array(names, pa.string())))
    return with_topics(metadata, mask)


def _let_spread(deadline: float) -> None:
    """Wait until brokers have the newest image, unless the poll's time would be over."""
    time.sleep(max(0.0, min(_SPREAD_S, deadline - time.monotonic())))
