"""When answers beside metadata say that something was so: never before they came."""

from datetime import datetime, timedelta
from typing import Any

from jobs.rules.gold import isr_shrink
from jobs.rules.gold.news import GoldInput
from jobs.rules.groups.polls import begins
from jobs.rules.silver.enrichments import headers_of
from schemas import gold, silver
from tests.support.bronze_rows import bronze_rows
from tests.support.gold_oracle import FLAP_WINDOW, FLAPS
from tests.support.histories import GROUP_STATE, START, Answer, good_answer
from tests.support.silver_rounds import Lake

STREAM = "20261101T000000Z-00000000"
PARTITION = {
    "error_code": 0,
    "leader": 1,
    "leader_epoch": 0,
    "replicas": [1, 2, 3],
    "isr": [1, 2, 3],
}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def poll(
    n: int, *, took_ms: int = 800, isr: tuple[int, ...] = (1, 2, 3), **states: dict[Any, tuple]
) -> Answer:
    """A poll each 10 s, answered after 0.1 s; then each kind in turn is asked, and answered after
    `took_ms`.
    """
    partition = PARTITION | {"isr": list(isr), "offline_replicas": []}
    answer = good_answer(
        STREAM, n, at(10 * n), {1: None, 2: None, 3: None}, {"t": [partition]}, batch=n
    )
    answer.enriched, answer.enrichments, answer.asked_ms = (
        dict.fromkeys(states, "ok"),
        states,
        took_ms,
    )
    return answer


def group(state: str) -> dict[Any, tuple]:
    told = {
        "group_type": "classic",
        "protocol_type": "consumer",
        "state": state,
        "assignor": "range",
        "members": [],
    }
    return {("g",): tuple(told.get(name) for name in GROUP_STATE)}


def lake_of(*answers: Answer) -> Lake:
    lake = Lake("prod")
    lake.take(bronze_rows("prod", list(answers)), [each.poll_id for each in answers], "id-prod")
    return lake


def rows(lake: Lake, table: Any) -> list[dict[str, Any]]:
    return sorted(lake.tables[table.full_name].values(), key=lambda row: row["first_poll"])


def test_a_group_had_begun_to_rebalance_when_described_and_not_when_the_poll_was_answered() -> None:
    """It began at 20.5 s, between the poll's answer at 20.1 s and its own description at 20.9 s."""
    states = ("Stable", "Stable", "PreparingRebalance", "Stable")
    of_group = rows(
        lake_of(*(poll(n, groups=group(state)) for n, state in enumerate(states))),
        silver.GROUP_SNAPSHOTS,
    )
    times = [
        (row["prev_sent_at"], row["valid_from"], row["last_seen_sent_at"], row["valid_to"])
        for row in of_group
    ]
    assert times == [
        (None, at(0.9), at(10.1), at(20.9)),
        (at(10.1), at(20.9), at(20.1), at(30.9)),
        (at(20.1), at(30.9), None, None),
    ]
    assert begins([row | {"is_new": True} for row in of_group], None) == [
        {"began_after": at(10.1), "began_before": at(20.9), "ended_before": at(30.9)}
    ]


def test_each_kind_is_dated_by_its_own_answer() -> None:
    kinds = {
        "configs": ({("t",): (1, False)}, {("t",): (2, False)}, silver.TOPIC_CONFIGS),
        "reassignments": ({}, {("t", 0): ((4,), (3,))}, silver.REASSIGNMENTS),
        "quorum": ({(): (1, 1, (1,))}, {(): (2, 2, (1,))}, silver.QUORUM),
        "elr": ({}, {("t", 0): ((2,), ())}, silver.PARTITION_ELR),
        "fenced": ({}, {(3,): ("host", 9092, None)}, silver.FENCED_BROKERS),
        "groups": (group("Stable"), group("Empty"), silver.GROUP_SNAPSHOTS),
    }
    before, after = ({kind: of[number] for kind, of in kinds.items()} for number in (0, 1))
    lake = lake_of(poll(0, took_ms=100, **before), poll(1, took_ms=200, **after))
    for number, (_, _, table) in enumerate(kinds.values()):
        last = rows(lake, table)[-1]
        assert last["first_poll"].endswith("1"), table.full_name
        assert last["prev_sent_at"] == at(0.1 + 0.1 * number), table.full_name
        assert last["valid_from"] == at(10.3 + 0.2 * number), table.full_name


def test_answers_are_folded_in_the_order_in_which_they_came() -> None:
    found = bronze_rows(
        "prod", [poll(0, groups=group("Stable"), fenced={}, quorum={(): (1, 1, (1,))})]
    )
    (header,) = headers_of(reversed(found))
    assert [answer["kind"] for answer in header["answers"]] == ["groups", "fenced", "quorum"]


def test_a_clock_that_is_set_back_dates_no_answer_before_an_earlier_one() -> None:
    first, second = poll(0, groups=group("Stable")), poll(1, groups=group("Empty"))
    second.sent_at, second.received_at = at(-50), at(-49.9)
    lake = lake_of(first, second)
    last = rows(lake, silver.GROUP_SNAPSHOTS)[-1]
    assert (last["prev_sent_at"], last["valid_from"]) == (at(0.1), at(0.9))
    assert [each.at for each in lake.polls] == [at(0.1), at(0.9)]


def episodes(*answers: Answer) -> list[tuple[Any, ...]]:
    lake = lake_of(*answers)
    of_silver = {
        table.full_name: rows(lake, table)
        for table in silver.SNAPSHOTS
        if table.full_name in lake.tables
    }
    news = GoldInput.of(of_silver, None, lake.polls[-1].id, lake.polls[-1].at)
    found = isr_shrink.fold(None, {}, news, Limits()).rows[gold.ISR_EPISODES.full_name]
    names = ("level", "began_after", "began_before", "ended_after", "ended_before")
    return sorted(
        (tuple(row[name] for name in names) for row in found), key=lambda row: (row[0], row[2])
    )


class Limits:
    flaps, flap_window = FLAPS, FLAP_WINDOW


def test_a_level_that_a_setting_brought_began_by_the_answer_about_settings() -> None:
    one, two = {("t",): (1, False)}, {("t",): (2, False)}
    assert episodes(
        poll(0, configs=one, isr=(1,)),
        poll(1, configs=two, isr=(1,)),
        poll(2, configs=one, isr=(1,)),
    ) == [
        ("at_min_isr", None, at(0.9), at(0.1), at(10.9)),
        ("at_min_isr", at(10.1), at(20.9), None, None),
        ("under_min_isr", at(0.1), at(10.9), at(10.1), at(20.9)),
        ("under_replicated", None, at(0.1), None, None),
    ]


def test_where_a_poll_and_the_answer_beside_it_show_a_change_each_either_may_have_come_last() -> (
    None
):
    one, two = {("t",): (1, False)}, {("t",): (2, False)}
    assert episodes(poll(0, configs=one), poll(1, configs=two, isr=(1, 2))) == [
        ("at_min_isr", at(0), at(10.9), None, None),
        ("under_replicated", at(0), at(10.1), None, None),
    ]
