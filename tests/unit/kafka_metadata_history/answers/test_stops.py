"""Whether a broker's stop was a controlled shutdown, as `broker_incidents` joins it from the
controllers' log.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import text_of
from schemas import gold, internal, silver, views
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident_questions import PARAMETERS

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
ACTIVE, FENCED, STOPPING, STOPPED = (False, False), (True, False), (False, True), (True, True)
"""Fenced, and in a controlled shutdown."""


@pytest.mark.parametrize(
    ("states", "stop"),
    [
        ({-60: ACTIVE, 12: FENCED, 18: ACTIVE}, "not_controlled"),
        ({-60: ACTIVE, 12: STOPPING, 14: STOPPED, 16: FENCED, 18: ACTIVE}, "controlled"),
        (
            {-60: ACTIVE, 12: STOPPING, 14: FENCED, 18: ACTIVE},
            "controlled",
        ),  # it was back before it was fenced
        ({-60: ACTIVE, 12: STOPPING, 14: FENCED, 15: ACTIVE, 17: FENCED, 19: ACTIVE}, "both"),
        (
            {-60: ACTIVE, 5: STOPPING, 6: STOPPED},
            "controlled",
        ),  # it was down before the incident began
        ({-60: ACTIVE}, None),
        ({-60: ACTIVE, 1: FENCED, 2: ACTIVE}, None),
        ({12: FENCED, 18: ACTIVE}, None),  # nobody knows how it was before
        ({}, None),
    ],
)
def test_a_stop_is_controlled_or_not_by_the_controllers_log(
    states: Mapping[int, tuple[bool, bool]], stop: str | None
) -> None:
    """An incident from 10 s on, to 20 s."""
    named = {"cluster": "prod", "cluster_id": "id-prod", "broker_id": 2}
    bounds = {"began_after": 10, "began_before": 11, "ended_after": 19, "ended_before": 20}
    incident = (
        named
        | {name: NOON + timedelta(seconds=seconds) for name, seconds in bounds.items()}
        | {"id": "one"}
    )
    times = [NOON + timedelta(seconds=seconds) for seconds in states]
    registrations = [
        named
        | {
            "valid_from": begin,
            "valid_to": end,
            "is_fenced": state[0],
            "in_controlled_shutdown": state[1],
        }
        | (
            {}
            if before is None
            else {"prev_is_fenced": before[0], "prev_in_controlled_shutdown": before[1]}
        )
        for begin, end, state, before in zip(
            times, [*times[1:], None], states.values(), [None, *states.values()], strict=False
        )
    ]
    rows = {gold.BROKER_INCIDENTS: [incident], silver.BROKER_REGISTRATIONS: registrations}
    with duckdb_lake(rows, (internal.STATE_NOW, views.OBSERVED)) as lake:
        (found,) = ask(lake, with_values(text_of("broker_incidents"), PARAMETERS))
    assert found["stop"] == stop
