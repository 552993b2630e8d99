"""Words for kinds, rules and causes."""

from dataclasses import replace
from datetime import datetime

import pytest

from jobs.rules.incidents.links import RULES
from jobs.rules.incidents.trees import ORDER
from kafka_metadata_history.answers.incidents import words
from kafka_metadata_history.answers.incidents.records import Finding, record
from tests.support.for_each import for_each
from tests.support.incident import at
from tests.support.incident_rows import bounds, finding


def found(kind: str, *, lasts: bool = False, **more: object) -> Finding:
    times = bounds((9, 10), None if lasts else (19, 20))
    empty = dict.fromkeys(Finding.__dataclass_fields__)
    return record(Finding, empty | finding("one", 1, kind, times) | more)


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (found("broker_missing", broker_id=3), "broker 3 was missing"),
        (found("broker_missing", broker_id=3, lasts=True), "broker 3 has been missing"),
        (found("broker_missing", broker_id=3, rack="b"), "broker 3 was missing (rack b)"),
        (found("partition_offline", partitions=1, topic="a"), "1 partition of a was offline"),
        (
            found("partition_offline", partitions=2, topic="a", lasts=True),
            "2 partitions, some of a, have been offline",
        ),
        (found("under_min_isr", partitions=1_200), "1,200 partitions were under min ISR"),
        (
            found("isr_left", broker_id=3, partitions=2, topic="a", leader=1, cause="lagging"),
            (
                "broker 3 was out of the ISRs of 2 partitions, some of a, dropped by broker 1 "
                "(lagging)"
            ),
        ),
        (
            found("unclean_election", partitions=2, topic="a"),
            "2 partitions, some of a, got a leader by an unclean election",
        ),
        (found("pause", group_id="shop", number=29_000), "group shop was paused for at least 29 s"),
        (found("pause"), "groups were paused for at least a while"),
        (found("lag", group_id="shop", number=1), "group shop was behind by at most 1 record"),
        (found("controller_elected", number=3), "an active controller was elected 3 times"),
        (found("controller_elected", number=1), "an active controller was elected"),
        (found("config_changed", topic="a"), "min.insync.replicas was changed of topic a"),
        (found("reassignment", partitions=3), "a reassignment of 3 partitions was running"),
        (
            found("disk_full", broker_id=3, group_id="{of}", topic="a"),
            "disk full of broker 3, group {of}, topic a",
        ),
    ],
)
def test_what_a_finding_says(of: Finding, says: str) -> None:
    assert words.of_finding(of) == says


@for_each("kind", [*words.SENTENCES, "a_new_one"])
def test_each_kind_is_said_of_nobody_too(kind: str) -> None:
    for lasts in (True, False):
        said = words.of_finding(found(kind, lasts=lasts))
        assert said == said.strip()
        assert "{" not in said
        assert "None" not in said


def test_each_kind_that_the_fold_makes_has_a_sentence_and_each_rule_a_reason() -> None:
    assert {*words.SENTENCES} == {*ORDER}
    assert {*words.RULES} == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    ("rule", "sureness", "says"),
    [
        ("missing_isr", "exact", "as the broker was missing (exact)"),
        ("missing_isr", None, "as the broker was missing"),
        ("a_new_one", "inferred", "by the rule a_new_one (inferred)"),
        (None, None, ""),
    ],
)
def test_why_a_finding_belongs_to_an_incident(
    rule: str | None, sureness: str | None, says: str
) -> None:
    assert words.why(replace(found("isr_left"), rule=rule, sureness=sureness)) == says


@pytest.mark.parametrize(
    ("of", "who", "sureness", "says"),
    [
        ("broker_down", "3", "exact", "broker 3 was down (exact)"),
        ("broker_down", None, None, "broker was down"),
        ("reassignment", None, "exact", "a reassignment (exact)"),
        ("rack", "{of}", None, "brokers of rack {of} were lost together"),
        ("unknown", None, None, "not known"),
        ("new_cause", "x", "inferred", "new cause (x) (inferred)"),
        ("new_cause", None, None, "new cause"),
    ],
)
def test_a_cause(of: str, who: str | None, sureness: str | None, says: str) -> None:
    assert words.cause(of, who, sureness) == says


def test_an_alternative_is_a_cause_and_who() -> None:
    assert words.alternative("broker_hung: 3") == "broker 3 hung before it was missing"
    assert words.alternative("unknown") == "not known"


@pytest.mark.parametrize(
    ("after", "before", "day", "says"),
    [
        (at(9), at(10), "", "between 2026-11-01 12:00:09Z and 12:00:10Z"),
        (at(9), at(10), "2026-11-01", "between 12:00:09Z and 12:00:10Z"),
        (at(10), at(10.4), "", "at 2026-11-01 12:00:10Z"),
        (None, at(10), "2026-10-31", "by 2026-11-01 12:00:10Z"),
        (at(-86_400), at(0), "", "between 2026-10-31 12:00:00Z and 2026-11-01 12:00:00Z"),
    ],
)
def test_both_bounds_of_a_time(
    after: datetime | None, before: datetime, day: str, says: str
) -> None:
    assert words.when(after, before, day) == says


def test_a_list_names_three() -> None:
    assert words.listed([3], "broker") == "broker 3"
    assert words.listed([1, 2, 3], "broker") == "brokers 1, 2 and 3"
    assert words.listed([1, 2, 3, 4, 5], "broker") == "brokers 1, 2, 3 and 2 more"
    assert words.listed(["x" * 70]) == f"{'x' * 60}... (70 characters)"
