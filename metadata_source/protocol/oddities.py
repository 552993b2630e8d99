"""Answers that are well-formed and yet cannot be meant: history could not say of which broker or
partition it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metadata_source.protocol.metadata import ClusterMetadata

_SHORT = 8
_LAST_PORT: Final = 65_535
LISTS: Final = ("replicas", "isr", "offline_replicas")
"""A partition's lists of brokers."""


def oddity(metadata: ClusterMetadata) -> str | None:
    """Return what is odd first, in words that follow the broker's address; None for a usual answer.

    Odd are: a broker, a topic or a partition that is listed twice, a topic without a name or with
    an empty one, a broker without a host or a port, a negative broker id or partition number. A
    broker that is twice in a list of one partition, or has a negative id there, makes that list
    odd, and nothing else (`are_odd`): brokers have answered so in production (cruise-control#1905).
    """
    return next(_oddities(metadata), None)


def _oddities(metadata: ClusterMetadata) -> Iterator[str]:
    """Yield what is odd. Each check may rely on those before it."""
    yield from _of_brokers(metadata.brokers)

    topics = metadata.topics["topic"].combine_chunks()
    if topics.null_count:
        yield f"topic {pc.index(topics.is_null(), True).as_py() + 1} of {len(topics)} has no name"
    if (at := _first(_are_empty(topics))) is not None:
        yield f"topic {at + 1} of {len(topics)} has an empty name"
    if len(pc.unique(topics)) < len(topics):
        counted = pc.value_counts(topics)
        yield (
            "it lists topic "
            f"{counted.filter(pc.greater(counted.field('counts'), 1))[0]['values']} twice"
        )

    numbers = metadata.partitions["partition"].to_numpy()
    counts = metadata.topics["partition_count"].to_numpy()
    if (at := _first(numbers < 0)) is not None:
        yield f"topic {topics[_owner(at, counts)]} has a partition {numbers[at]}"
    if (at := _repeated(numbers, counts)) is not None:
        yield f"it lists topic {topics[_owner(at, counts)]}, partition {numbers[at]} twice"


def _of_brokers(table: pa.Table) -> Iterator[str]:
    brokers = table["broker_id"].to_numpy()
    if (at := _first(brokers < 0)) is not None:
        yield f"it lists a broker with the id {brokers[at]}"
    if (at := _repeated(brokers, np.array([len(brokers)]))) is not None:
        yield f"it lists broker {brokers[at]} twice"
    if (at := _first(_are_empty(table["host"].combine_chunks()))) is not None:
        yield f"broker {brokers[at]} has no host"
    ports = table["port"].to_numpy()
    if (at := _first((ports < 1) | (ports > _LAST_PORT))) is not None:
        yield f"broker {brokers[at]} has the port {ports[at]}"


def are_odd(lists: pa.ListArray) -> npt.NDArray[np.bool_]:
    """Whether each list of brokers cannot be meant: it has one twice, or a negative id."""
    return have_repeats(lists) | have_negatives(lists)


def have_negatives(lists: pa.ListArray) -> npt.NDArray[np.bool_]:
    """Whether each list has a negative number; one that is null has none."""
    found: npt.NDArray[np.bool_] = np.zeros(len(lists), dtype=np.bool_)
    found[pc.list_parent_indices(lists).filter(pc.less(lists.flatten(), 0)).to_numpy()] = True
    return found


def have_repeats(lists: pa.ListArray) -> npt.NDArray[np.bool_]:
    """Whether each list has a number twice; one that is null has none."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    owners = np.repeat(np.arange(len(lengths)), lengths)
    found: npt.NDArray[np.bool_] = np.zeros(len(lengths), dtype=np.bool_)
    found[owners[_repeats(lists.flatten().to_numpy(), lengths)]] = True
    return found


def _are_empty(texts: pa.StringArray) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = (
        pc.equal(texts, "").fill_null(False).to_numpy(zero_copy_only=False)
    )
    return flags


def _first(flags: npt.NDArray[np.bool_]) -> int | None:
    return int(flags.argmax()) if flags.any() else None


def _owner(at: int, lengths: npt.NDArray[np.int32]) -> int:
    """Return which of the lists of these lengths, one after the other, an entry belongs to."""
    return int(np.searchsorted(np.cumsum(lengths), at, side="right"))


def _repeated(numbers: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]) -> int | None:
    """Return where a number first is in its list again; lists of these lengths, in a row."""
    return _first(_repeats(numbers, lengths))


def _repeats(
    numbers: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Return whether each number's list has it again, further on."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    found: npt.NDArray[np.bool_] = np.zeros(len(numbers), dtype=np.bool_)
    longest = int(lengths.max(initial=0))
    if longest <= _SHORT:
        # Several times as fast as sorting, and lists of replicas are short.
        for step in range(1, longest):
            found[:-step] |= (numbers[step:] == numbers[:-step]) & (owners[step:] == owners[:-step])
        return found
    keys = owners << 32 | numbers.astype(np.int64) & 0xFFFFFFFF
    order = np.argsort(keys, kind="stable")
    found[order[:-1]] = keys[order[1:]] == keys[order[:-1]]
    return found
