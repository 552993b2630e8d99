"""Alerts in the words of `explain`, and when it is worse."""

import pytest

from kafka_metadata_history.answers.incidents.records import Incident, record
from kafka_metadata_history.notify.alert import (
    Alert,
    is_worse,
    of_incident,
    of_lake,
    of_silent,
    over,
    worst,
)
from tests.support.alerts import NOON, after, alert
from tests.support.incident_rows import bounds, incident


def incident_of(**more: object) -> Incident:
    row = incident("a0", "under_min_isr", bounds((9, 10)), topics=["\x1borders"], **more)
    return record(
        Incident,
        {"cause_of": None, "cause_sureness": None, "began_controlled": None, "worst_level": None}
        | {"merged_into": None, "incident_class": row["class"]}
        | row,
    )


def test_names_cannot_do_anything_to_a_terminal() -> None:
    of = of_incident(incident_of(under_min_isr_most=1), "")
    assert "\\x1borders" in of.title
    assert (of.title + of.text + of.state).isprintable()
    assert of.link is None


def test_states_are_those_of_explain() -> None:
    ended = {"end_reason": "merged", "merged_into": "b0"} | bounds((9, 10), (20, 21))
    of = of_incident(incident_of(**ended), "https://pages")
    assert (of.state, of.is_open, of.link) == ("MERGED into b0", False, "https://pages/incident/a0")


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        (alert(severity="page"), alert(), True),
        (alert(severity="info"), alert(), False),
        (alert(level="at_min_isr"), alert(), True),
        (alert(level="offline"), alert(level="under_min_isr"), True),
        (alert(level="under_min_isr"), alert(level="offline"), False),
        (alert(level="one of a later version"), alert(level="offline"), True),
        (alert(brokers=(3, 4)), alert(brokers=(3,)), True),
        (alert(brokers=()), alert(brokers=(3,)), False),
    ],
)
def test_worse_is_a_worse_severity_or_level_or_another_broker(
    now: Alert, before: Alert, expected: bool
) -> None:
    assert is_worse(now, before) is expected
    assert not is_worse(now, worst(now, before))
    assert not is_worse(before, worst(now, before))


def test_what_is_no_incident_has_a_key_that_stays() -> None:
    never, old = of_silent("prod", None, NOON), of_silent("prod", after(-10), NOON)
    assert never.key == old.key == "nothing_recorded-prod"
    assert (never.began, old.began) == (NOON, after(-10))
    assert "of prod so far" in never.text
    ended = over(old, after(60))
    assert (ended.headline, ended.end_reason) == (
        "OVER page: nothing is recorded of prod",
        "recovered",
    )
    assert over(of_lake("it is gone", NOON), after(60)).end_reason == "recovered"
