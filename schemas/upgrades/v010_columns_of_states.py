"""Version 10: what SQL asks of internal.states has columns; tables that views alone read lie in
schema internal (`Table.was`); and a recorder makes the polls, with offsets of its own.
"""

import json

from schemas.upgrades.step import Step


def state(history: str, cluster: str, memory: str | None) -> str | None:
    """The memory of a row of internal.states."""
    if memory is None:
        return None
    if history.startswith("aside of "):
        return "{}"
    if history == "rebalance_history" and cluster:
        value = json.loads(memory)
        value["positions"] = value.pop("places", {})
        return json.dumps(value, separators=(",", ":"))
    return memory


STEP = Step(
    version=10,
    rows={
        "internal.states": (
            """
            SELECT * EXCEPT (history, memory, done_at),
              replace(history, 'aside of ', 'left out of ') AS history,
              v10_state(history, cluster, memory) AS memory,
              CASE WHEN history = 'rebalance_cost'
                THEN CAST(get_json_object(memory, '$.told') AS TIMESTAMP) ELSE done_at
              END AS done_at,
              CASE WHEN history = 'silver'
                THEN coalesce(from_json(memory, 'seen MAP<STRING, BIGINT>').seen, map())
              END AS taken,
              CASE WHEN history = 'silver'
                THEN coalesce(from_json(memory, 'waiting ARRAY<STRING>').waiting, array())
              END AS waiting,
              CASE WHEN history = 'silver'
                THEN coalesce(CAST(get_json_object(memory, '$.failed_polls') AS BIGINT), 0)
              END AS failed_polls,
              CASE WHEN history = 'silver'
                THEN coalesce(from_json(memory, 'error_kinds ARRAY<STRING>').error_kinds, array())
              END AS error_kinds,
              CASE WHEN history = 'rebalance_history' AND cluster <> '' THEN coalesce(
                from_json(memory, 'places MAP<STRING, ARRAY<BIGINT>>').places, map()
              ) END AS positions,
              CASE WHEN history = 'rebalance_cost'
                THEN from_json(memory, 'read MAP<STRING, TIMESTAMP>').read END AS read_until,
              CASE WHEN history LIKE 'aside of %' THEN get_json_object(memory, '$.says') END AS why
            FROM {rows}
            """,
        ),
    },
    functions={"v10_state": state},
    says=(
        (
            "polls begin a new stream: nothing was observed between the last poll of the older "
            "program and the first one of this program"
        ),
    ),
    begins_stream=True,
)
