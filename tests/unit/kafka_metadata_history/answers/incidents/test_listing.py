"""The open incidents on one screen."""

import json
from dataclasses import replace

from kafka_metadata_history.answers.incidents import listing
from kafka_metadata_history.answers.incidents.listing import Listing
from kafka_metadata_history.answers.incidents.read import worst_first
from kafka_metadata_history.answers.incidents.records import Incident, Recorded, record
from tests.support.incident import at
from tests.support.incident_rows import NOW, bounds, incident

PROD = Recorded("prod", at(NOW - 3), True, True, True, True)
ROW = incident("a" * 32, "broker_missing", bounds((9, 10)), brokers=[3])
OPEN = record(
    Incident, dict.fromkeys(Incident.__dataclass_fields__) | ROW | {"incident_class": "incident"}
)


def lines(of: Listing, config: str | None = None) -> list[str]:
    return listing.as_text(of, at(NOW), config).splitlines()


def test_nothing_is_open() -> None:
    other = replace(PROD, cluster="east", until=at(NOW - 60))
    assert lines(Listing([PROD], [], [], ["prod"])) == [
        "no incident is open; the record reaches to 2026-11-01 12:04:57Z, 3 s ago"
    ]
    assert lines(Listing([other, PROD], [], [], ["prod"])) == [
        (
            "no incident is open; the record reaches to 2026-11-01 12:04:00Z, 60 s ago, of east "
            "the oldest"
        )
    ]


def test_a_cluster_that_is_not_recorded_is_a_page_above_all() -> None:
    late = replace(PROD, until=at(NOW - 301))
    just = replace(PROD, cluster="just", until=at(NOW - 300))
    of = Listing([late, just], [OPEN], [], ["just", "new", "prod"])
    first, second, heading, *_ = lines(of)
    assert first == "nothing recorded of new: page"
    assert second == "nothing recorded of prod since 2026-11-01 11:59:59Z, 5 min ago: page"
    assert heading.startswith("severity")


def test_a_cluster_that_is_no_more_recorded_on_purpose_is_none() -> None:
    late = replace(PROD, cluster="left out", until=at(-86_400))
    assert listing.silent(Listing([late, PROD], [], [], ["prod"]), at(NOW)) == []


def test_incidents_that_are_not_made_are_said_so() -> None:
    first, last = lines(Listing([replace(PROD, is_made=False)], [], [], ["prod"]))
    assert first.startswith("incidents of prod are not made yet: `kafka-metadata-history run`")
    assert last == "no incident is known to be open"


def test_the_worst_is_first() -> None:
    found = [
        replace(OPEN, id="info", severity="info", offline=9),
        replace(OPEN, id="late", severity="page", began_before=at(20)),
        replace(OPEN, id="first", severity="page"),
        replace(OPEN, id="under", severity="page", under_min_isr=1),
        replace(OPEN, id="offline", severity="page", offline=1),
        replace(OPEN, id="ticket", severity="ticket"),
    ]
    assert [each.id for each in worst_first(found)] == [
        "offline",
        "under",
        "first",
        "late",
        "ticket",
        "info",
    ]


def test_many_are_cut_and_counted() -> None:
    many = [replace(OPEN, id=f"{number:032}") for number in range(20)]
    found = lines(Listing([PROD], many, [], ["prod"]), "a b.yaml")
    assert "and 5 more: kafka-metadata-history query incidents --config 'a b.yaml'" in found
    assert len(found) <= 25
    assert found[-1] == (f"more of one: kafka-metadata-history explain {0:032} --config 'a b.yaml'")


def test_a_name_does_nothing_to_a_terminal() -> None:
    hostile = replace(OPEN, cluster="a\x1b[31m", cause="rack", cause_of="\n", kind="group_stuck")
    found = lines(Listing([PROD], [replace(hostile, group_ids=["\u202e"])], [], []))
    assert all(line.isprintable() for line in found)


def test_json() -> None:
    said = json.loads(listing.as_json(Listing([PROD], [OPEN], [], ["new"]), at(NOW), None))
    assert said["silent"] == [{"cluster": "new", "recorded_until": None}]
    assert (said["open"][0]["id"], said["over"]) == ("a" * 32, [])
    assert said["recorded"][0]["until"] == "2026-11-01T12:04:57.000Z"
