"""Version 8: an answer beside metadata is a header row of its own in bronze, with its own times; a
lag may be negative; and folds remember other things of groups.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from schemas.upgrades.step import Step

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TO_MICROSECONDS: Final = "map('timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX')"


def state(history: str, memory: str | None, done_at: int | None, clusters: list[str]) -> str | None:
    """The memory of a row of internal.states. `done_at`: µs since 1970; `clusters`: the aliases
    whose rebalances have a history.
    """
    if memory is None:
        return None
    value = json.loads(memory)
    if history in {"isr_shrink", "leader_churn"} and "elr" in value:
        # It was told by then at the latest.
        since = None if done_at is None else (_EPOCH + timedelta(microseconds=done_at)).isoformat()
        if since is None:
            del value["elr"]
        else:
            value["elr"] = [[key, {**elr, "since": since}] for key, elr in value["elr"]]
    if history == "rebalance_cost":
        value["read"] = dict.fromkeys(clusters, value["read"])
    return json.dumps(value, separators=(",", ":"))


def group(memory: str | None, live: list[str] | None) -> str | None:
    """The memory of the rebalances of a group. `live`: the ids of its rows that may change."""
    if memory is None:
        return None
    value = _standings(json.loads(memory))
    for of_partition in value.get("log", {}).values():
        # Of the last batch that was read: version 7 took all live rows for these.
        of_partition["recent"] = sorted(live or [])
    return json.dumps(value, separators=(",", ":"))


def _standings(value: Any) -> Any:
    """A value of a group's memory, at any depth."""
    if isinstance(value, list):
        return [_standings(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: _standings(each) for name, each in value.items()}
    if isinstance(given_up := made.get("rebalance"), dict) and "withheld" in given_up:
        # Nobody knows any more whom the partitions were taken from. They are withheld until the
        # next generation either way.
        member = min(made.get("now", {}).get("members", {}), default="")
        given_up["given_up"] = {member: given_up.pop("withheld")}
    # A topic may have such a name, and then a list of partitions.
    for name in ("initializing", "awaits_epoch"):
        if isinstance(made.get(name), bool):
            del made[name]
    return made


def lag(memory: str | None) -> str | None:
    """The memory of the lag of a group: the window of each partition begins with the last visit."""
    if memory is None:
        return None
    value = json.loads(memory)
    value["times"] = []
    value["topics"] = {
        topic: {partition: _window(*kept) for partition, kept in of_topic.items()}
        for topic, of_topic in value["topics"].items()
    }
    return json.dumps(value, separators=(",", ":"))


def _window(
    offset: int,
    end: int | None,
    lag_then: int | None,
    after: int | None,
    before: int,
    *_: object,
) -> Sequence[Any]:
    return [after, before, end, before, [offset], [lag_then]]


STEP = Step(
    version=8,
    rows={
        "bronze.metadata_polls": (
            """
            SELECT * EXCEPT (enriched, enrichment_digests, configs),
              transform_values(
                configs,
                (name, value) -> named_struct('value', value, 'source', CAST(NULL AS STRING))
              ) AS configs
            FROM {rows}
            """,
            # Version 7 dated what an answer told by the poll that it came with.
            """
            SELECT poll_id, stream, n, cluster, 'answer' AS record, kind, chunk, day, cluster_id,
              interval_ms, scheduled_at, topic_filter, groups_pattern, sent_at AS asked_at,
              IF(outcome LIKE 'ok%', received_at, NULL) AS answered_at, outcome,
              enrichment_digests[kind] AS digest
            FROM (
              SELECT * EXCEPT (outcome), explode(enriched) AS (kind, outcome) FROM {rows}
              WHERE enriched IS NOT NULL
            )
            """,
        ),
        "gold.group_lag": ("SELECT *, 0 AS partitions_beyond FROM {rows}",),
        # The first programs of version 7 did not know when a record was there.
        "gold.rebalance_cost": (
            f"""
            SELECT * EXCEPT (awaits_after), from_json(
              to_json(awaits_after, {_TO_MICROSECONDS}),
              'committed BIGINT, at TIMESTAMP, there_before TIMESTAMP, set_to BIGINT',
              {_TO_MICROSECONDS}
            ) AS awaits_after
            FROM {{rows}}
            """,  # noqa: S608 - a constant of this file
        ),
        "internal.states": (
            """
            SELECT * EXCEPT (memory), v8_state(
              history, memory, unix_micros(done_at),
              collect_set(IF(history = 'rebalance_history', nullif(cluster, ''), NULL)) OVER ()
            ) AS memory
            FROM {rows}
            """,
        ),
        "internal.group_states": (
            """
            SELECT states.* EXCEPT (memory), v8_group(memory, ids) AS memory
            FROM {rows} AS states LEFT JOIN (
              SELECT cluster_id, group_id, collect_list(id) AS ids FROM (
                SELECT cluster_id, group_id, id FROM {internal.rebalances} WHERE part IS NOT NULL
                UNION ALL
                SELECT cluster_id, group_id, id FROM {internal.group_events} WHERE part IS NOT NULL
              ) GROUP BY cluster_id, group_id
            ) AS live USING (cluster_id, group_id)
            """,
        ),
        "internal.lag_states": ("SELECT * EXCEPT (memory), v8_lag(memory) AS memory FROM {rows}",),
    },
    back={
        "bronze.metadata_polls": (
            """
            SELECT rows.* EXCEPT (kind, asked_at, answered_at, metadata_version_highest, configs),
              transform_values(configs, (name, each) -> each.value) AS configs,
              enriched, enrichment_digests
            FROM (SELECT * FROM {rows} WHERE record <> 'answer') AS rows
            LEFT JOIN (
              SELECT cluster, poll_id, 'poll' AS record, 'ok' AS outcome,
                map_from_entries(collect_list(struct(kind, outcome))) AS enriched,
                IF(count(digest) = 0, NULL, map_from_entries(
                  collect_list(struct(kind, digest)) FILTER (WHERE digest IS NOT NULL)
                )) AS enrichment_digests
              FROM {rows} WHERE record = 'answer' GROUP BY cluster, poll_id
            ) AS answers USING (cluster, poll_id, record, outcome)
            """,
        ),
    },
    functions={"v8_state": state, "v8_group": group, "v8_lag": lag},
    says=(
        "answers beside metadata keep the times of the polls that they came with",
        (
            "memory of rebalances, of lag and of gold is migrated, nothing is folded again; "
            "Burrow's window of ten polls begins with the last one before the upgrade, and rows of "
            "lag from before say 0 in partitions_beyond"
        ),
    ),
)
