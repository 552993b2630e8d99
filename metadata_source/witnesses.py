"""News of a poll, checked at once with other brokers: nothing becomes history because one broker
says so.

An answer that differs from the poll before has news, or is older than that. The broker that
answered the poll before is asked about the topics that differ: it shows whether the news are news,
and whether it was itself behind when it said that nothing had changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.addresses import Address, format_address
from metadata_source.facts import UNKNOWN_TOPIC_OR_PARTITION
from metadata_source.images import SAME, Age, Difference, difference, with_topics
from metadata_source.poll import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from metadata_source.errors import PollError
    from metadata_source.images import Image
    from metadata_source.poll import Poll
    from metadata_source.protocol.metadata import ClusterMetadata

    Ask = Callable[[Address, Sequence[str] | None], tuple[Poll, PollError | None]]
    """Asks a broker about these topics, or all; the answer, and why there is none."""

_NAMED: Final = 200
"""More topics than this are not asked for by name."""
_ASKED: Final = 3
"""The most brokers that are asked beside the one that answered."""


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
    """News of an answer, which came from `place`, and how to ask others about them.

    `known`: the poll before; where it is None, everything is news. `pause` waits until images have
    spread.
    """

    answer: Poll
    place: Address
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
        """Ask the first of `others` that answers: the newer answer, its place, and what the others
        said.

        Where ours is older the other's takes its place, also if our broker has followed by now and
        so was not behind. Where neither of two can be older (equal leader epochs, and each lists
        the other) a third decides. If there is none, ours is older where its broker `was_behind`
        with the same answer before; else nobody knows. Raises PollError where ours is older and the
        newer one does not come.
        """
        witnesses: list[Witness] = []
        rival: tuple[Address, Poll, Difference] | None = None
        names = self.names
        for place in islice(others, _ASKED):
            other, error = self.ask(place, names)
            if error is not None:
                witnesses.append(
                    Witness(other.broker_id, format_address(place), error_kind=error.kind)
                )
                continue
            at_first = _difference(self.answer, other, names)
            if rival is not None and _difference(rival[1], other, names).age is Age.SAME:
                at_first = replace(at_first, age=Age.OLDER)  # two against ours
            found, older = self._settled(at_first, place, other, names)
            if Age.OLDER in (at_first.age, found.age):
                return self._put_aside(place, other, older, found, witnesses)
            if found.age is Age.UNCLEAR:
                rival = rival or (place, other, found)
                continue
            if rival is not None:
                witnesses.append(self._behind(rival[1], self.answer, rival[2]))
            witnesses.append(
                self._behind(older, self.answer, found)
                if found.age is Age.NEWER
                else Witness.of(other)
            )
            return self.place, self.answer, witnesses
        if rival is not None:
            if was_behind:
                found = replace(rival[2], age=Age.OLDER)
                return self._put_aside(rival[0], rival[1], self.answer, found, witnesses)
            witnesses.append(replace(Witness.of(rival[1]), is_behind=None))
        return self.place, self.answer, witnesses

    def _settled(
        self, found: Difference, place: Address, other: Poll, names: Sequence[str] | None
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
        again, error = self.ask(self.place if is_ours else place, names)
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
        self, place: Address, other: Poll, older: Poll, found: Difference, witnesses: list[Witness]
    ) -> tuple[Address, Poll, list[Witness]]:
        """The other's answer in the place of ours: whole, if the other was asked about some
        topics.
        """
        whole, error = (other, None) if self.names is None else self.ask(place, None)
        if error is not None:
            raise error
        told = self._behind(older, other, found) if found.age is Age.OLDER else Witness.of(older)
        return place, whole, [*witnesses, told]


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
    """An answer about these topics, or all. One that is not there is named only where it was asked
    for by name.
    """
    topics = metadata.topics
    mask = pc.not_equal(topics["error_code"], UNKNOWN_TOPIC_OR_PARTITION)
    if names is not None:
        mask = pc.and_(mask, pc.is_in(topics["topic"], pa.array(names, pa.string())))
    return with_topics(metadata, mask)
