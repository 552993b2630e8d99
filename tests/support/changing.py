"""A cluster of byte brokers whose brokers show different images, and the poller of such a one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import pytest

from metadata_source import brokers as brokers_module
from metadata_source import witnesses
from metadata_source.images import Image
from metadata_source.options import parse
from metadata_source.poll import Poll
from metadata_source.poller import Poller
from metadata_source.protocol.metadata import ClusterMetadata, decode_response
from tests.support.byte_cluster import ByteCluster, encoded

ORDERS, PAYMENTS = (5, (0, 1, 2)), (3, (1, 2, 0))
"""The leader epoch and the ISR of a partition of topic `orders`, and of one of `payments`."""
ENOUGH = "60s"
"""The time of a poll whose end no test waits for."""


class Changing(ByteCluster):
    """Brokers 0 to 2, whose round is in the order of their ids: topics `orders` and `payments` of a
    partition each.
    """

    def __enter__(self) -> Self:
        super().__enter__()
        self.whole = self.image(ORDERS)
        self.shrunk = self.image((5, (0, 1)))
        self.moved = self.image((6, (1, 2)), (4, (2, 1)))
        self.fenced = self.image((5, (0, 1)), (3, (1, 0)), listed=(0, 1))
        """As the cluster is once broker 2 is fenced, which leads nothing."""
        self.set(self.whole)
        return self

    def image(
        self,
        orders: tuple[int, tuple[int, ...]],
        payments: tuple[int, tuple[int, ...]] = PAYMENTS,
        listed: tuple[int, ...] | None = None,
        **more: list[tuple[int, tuple[int, ...]]],
    ) -> ClusterMetadata:
        return self.made(listed, orders=[orders], payments=[payments], **more)

    def hang(self, *brokers: int, on: tuple[str, ...]) -> None:
        """Let these brokers give no answer to these requests; to each one if there are none."""
        for each in brokers:
            self.brokers[each].hangs_on = frozenset(on)


def in_order(patch: pytest.MonkeyPatch) -> None:
    """Let brokers be asked in the order of their ids, and images spread soon."""
    patch.setattr(brokers_module.random, "randint", lambda _, last: last)
    patch.setattr(brokers_module.random, "shuffle", lambda _: None)
    patch.setattr(witnesses, "_SPREAD_S", 0.02)
    patch.setattr(witnesses, "_WITNESS_S", 20.0)  # a busy machine keeps that


@contextmanager
def changing(patch: pytest.MonkeyPatch) -> Iterator[Changing]:
    in_order(patch)
    with Changing(3) as found:
        yield found


def poller(
    servers: str, timeout: str = ENOUGH, interval_ms: int | None = None, **more: str
) -> Poller:
    options = parse({"kafka.bootstrap.servers": servers, "requestTimeout": timeout} | more)
    return Poller(
        options.clusters[0],
        options.topic_filter,
        options.request_timeout_ms,
        interval_ms=interval_ms,
    )


def of_cluster(brokers: ByteCluster, timeout: str = ENOUGH, **more: str) -> Poller:
    return poller(brokers.servers(), timeout, **more)


def seen(image: ClusterMetadata) -> Image:
    """An image as its answer shows it."""
    return Image.of(decode_response(encoded(image, 12, None), 12))


def behind(poll: Poll) -> list[tuple[int | None, bool | None]]:
    """Which other brokers answered, and whether they were behind."""
    return [(each.broker_id, each.is_behind) for each in poll.witnesses]


def polls(each: Poller, count: int) -> list[tuple[int, list[tuple[int, bool]]]]:
    """Who answered, and which others did, with whether they were behind."""
    return [(poll.broker_id, behind(poll)) for poll in (each.poll() for _ in range(count))]


def next_of(each: Poller, brokers: ByteCluster) -> int:
    """The broker that the next poll asks."""
    return brokers.places.index(each.brokers.ring(each.brokers.answered)[0])


def answered_by(each: Poller, broker: int) -> None:
    """Poll until this broker has answered last."""
    while each.poll().broker_id != broker:
        pass
