"""Who coordinates the groups of each partition of __consumer_offsets: its leader, so the polls of
partitions tell.

A move writes no record of a group and makes none rebalance more than any pause does: it is context.
"""

from collections.abc import Collection, Iterable

from jobs.rules.gold.bounds import Bounds
from jobs.rules.gold.causes import due_at
from jobs.rules.gold.elections import has_moved, hides_leader
from jobs.rules.silver.rows import Coordinator, PartitionSnapshot
from metadata_source.kafka_constants import OFFSETS_TOPIC


def coordinators(
    partitions: Iterable[PartitionSnapshot], known: Collection[tuple[int, str]]
) -> list[Coordinator]:
    """Rows of silver.coordinators: changes of leaders, first ones, and those that an answer may
    hide; and ends, unless the topic was made again.

    `partitions`: rows of silver.partition_snapshots that began or ended. `known`: partition and
    first poll of those that were there before.
    """
    began, ended = {}, {}
    for row in partitions:
        if row["topic"] != OFFSETS_TOPIC:
            continue
        is_change = row["prev_leader"] != row["leader"] or hides_leader(row)
        if (row["partition"], row["first_poll"]) not in known and is_change:
            began[row["cluster_id"], row["partition"], row["first_poll"]] = _row(
                row, Bounds.of_begin(row), is_move=has_moved(row)
            )
        if row["end_reason"] is not None:
            gone: PartitionSnapshot = {
                **row,
                "leader": None,
                "leader_epoch": None,
                "prev_leader": row["leader"],
                "prev_leader_epoch": row["leader_epoch"],
            }
            ended[row["cluster_id"], row["partition"], row["superseded_poll"]] = _row(
                gone, Bounds.of_end(row), is_move=False
            )
    return list((ended | began).values())


def _row(row: PartitionSnapshot, bounds: Bounds, *, is_move: bool) -> Coordinator:
    return {
        "cluster_id": row["cluster_id"],
        "cluster": row["cluster"],
        "leader": row["leader"],
        "leader_epoch": row["leader_epoch"],
        "prev_leader": row["prev_leader"],
        "prev_leader_epoch": row["prev_leader_epoch"],
        "log_partition": row["partition"],
        "is_move": is_move,
        "followed_until": due_at(bounds.before, row["interval_ms"]),
        **bounds.began,
    }
