"""Questions about incidents, asked of rows that were made by hand."""

from tests.support.incident_questions import Ask, columns
from tests.support.incident_rows import OPEN, RESTART, UNKNOWN


class Incidents:
    """Rows that were made by hand, of a cluster of their own: tests/support/incident_rows.py."""

    def test_incidents(self, ask: Ask) -> None:
        told = ("id", "severity", "kind", "cause", "began_after", "began_before", "brokers")
        lasts = (OPEN, "page", "broker_missing", "broker_down 3", 9, 10, [3])
        assert columns(ask("incidents", cluster="east"), *told) == [lasts]
        whole = ask("incidents", cluster="east", since="2026-11-01T11:00:00Z")
        sums = ("id", "seconds_min", "seconds_max", "not_observed_s", "end_reason")
        assert columns(whole, *sums) == [
            (RESTART, 298, 300, 0, "recovered"),
            (UNKNOWN, 10, None, 0, "recovered"),
            (OPEN, 90, 91, 0, None),
        ]
        narrowed = {"since": "2026-11-01T11:00:00Z", "cluster": "east"}
        assert columns(ask("incidents", broker=1, **narrowed), "id") == [(RESTART,)]
        assert columns(ask("incidents", topic="clicks", **narrowed), "id") == [(UNKNOWN,)]
        assert columns(ask("incidents", group="shop", **narrowed), "id") == [(OPEN,)]
        assert columns(ask("incidents", at_least=91, **narrowed), "id") == [(RESTART,)]

    def test_incident_links(self, ask: Ask) -> None:
        told = ("kind", "name", "partitions", "rule", "sureness", "number")
        assert columns(ask("incident_links", incident=OPEN), *told)[:2] == [
            ("broker_missing", None, 0, None, None, None),
            ("isr_left", "orders", 14, "missing_isr", "exact", None),
        ]
        of_restart = ask("incident_links", incident=RESTART)
        assert columns(of_restart, "broker_id", "began_before", "ended_before") == [
            (1, -599, -501),
            (2, -499, -401),
            (3, -399, -301),
        ], "of all times"
        assert len(ask("incident_links", cluster="east")) == 9
        of_group = ask("incident_links", cluster="east", group="shop")
        assert columns(of_group, "kind", "number") == [
            ("coordinator_moved", None),
            ("rebalance", None),
            ("pause", 29_000),
            ("lag", 12_345),
        ]
        assert ask("incident_links", incident="none") == []

    def test_events(self, ask: Ask) -> None:
        told = ("event", "known_at", "happened_after", "happened_before", "offline", "detail")
        assert columns(ask("events", cluster="east"), *told) == [
            ("opened", 12, 9, 10, 0, None),
            ("worse", 14, 11, 12, 3, "offline"),
        ]
        ended = ask("events", incident=RESTART, since="2026-11-01T11:00:00Z")
        assert columns(ended, "event", "what") == [("ended", "brokers 1, 2 and 3")]
