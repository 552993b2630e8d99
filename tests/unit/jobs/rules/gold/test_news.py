"""The input of a fold of gold: rows of silver that began or ended since the round before."""

from typing import Any

import pytest

from jobs.rules.gold.news import (
    BROKERS,
    CLUSTERS,
    PARTITION_ELR,
    REASSIGNMENTS,
    SETTINGS,
    Elr,
    GoldInput,
    Known,
    Levels,
    Poll,
    SilverRows,
    as_of,
)
from jobs.rules.memory import from_json, to_json
from schemas.silver import INTERVAL_ENDS
from tests.support.gold_cases import Seen, history_of, in_sync
from tests.support.silver_rows import PARTITIONS, START, Row

# --- what is new ---

LIFE = history_of(
    Seen("123", min_isr=1), Seen("12", min_isr=1), Seen("1", min_isr=2), Seen("123", min_isr=2)
)
IDS = [poll.poll_id for poll in LIFE.polls]


def news(done: int | None, settled: int) -> GoldInput:
    end = LIFE.polls[settled]
    return GoldInput.of(LIFE.rows, None if done is None else IDS[done], end.poll_id, end.at)


@pytest.mark.parametrize(
    ("done", "settled", "began", "over"),
    [
        (None, 0, ["123"], []),
        (None, 1, ["123", "12"], ["123"]),
        (0, 1, ["12"], ["123"]),
        (1, 2, ["1"], ["12"]),
        (0, 3, ["12", "1", "123"], ["123", "12", "1"]),
        (3, 3, [], []),
    ],
)
def test_news_are_what_began_or_was_over_since_the_round_before(
    done: int | None, settled: int, began: list[str], over: list[str]
) -> None:
    polls = news(done, settled).polls()

    def isrs(rows: list[Any]) -> list[str]:
        return ["".join(map(str, row["isr"])) for row in rows]

    assert [isr for poll in polls for isr in isrs(poll.began.partitions)] == began
    assert [isr for poll in polls for isr in isrs(poll.over.partitions)] == over
    assert [poll.poll_id for poll in polls] == sorted(poll.poll_id for poll in polls)


def test_polls_are_in_their_order_whatever_that_of_the_rows() -> None:
    rows = {PARTITIONS: LIFE.rows[PARTITIONS][::-1]}
    assert [poll.poll_id for poll in GoldInput(rows, "", IDS[3], START).polls()] == IDS


def test_a_row_is_as_it_was_at_the_settled_poll() -> None:
    first, second, *_ = LIFE.rows[PARTITIONS]
    assert as_of(first, IDS[0]) == first | dict.fromkeys(INTERVAL_ENDS)
    assert as_of(first, IDS[1]) == first
    assert as_of(second, IDS[1]) == second | dict.fromkeys(INTERVAL_ENDS)
    (row,) = news(None, 0).rows[PARTITIONS]
    assert row["superseded_poll"] is None


@pytest.mark.parametrize(
    ("done", "settled", "known", "context"),
    [
        (None, 3, [], []),
        (0, 1, ["s/000000000000"], []),
        (1, 2, ["s/000000000001"], []),
        (2, 3, ["s/000000000002"], []),
    ],
)
def test_states_of_before_are_known_where_they_are_over(
    done: int | None, settled: int, known: list[str], context: list[str]
) -> None:
    given = news(done, settled)
    assert [row["first_poll"] for row in given.known] == known
    assert [row["first_poll"] for row in given.context] == context


def test_partitions_that_held_all_the_time_are_context_if_their_topics_settings_changed() -> None:
    both = {("t", 0): in_sync("12"), ("u", 0): in_sync("12")}
    life = history_of(Seen(both, min_isr=1), Seen(both, min_isr=2), Seen(both, min_isr=2))

    def context(done: int | None, settled: int) -> list[tuple[str, str]]:
        end = life.polls[settled]
        done_poll = None if done is None else life.polls[done].poll_id
        given = GoldInput.of(life.rows, done_poll, end.poll_id, end.at)
        assert [row for row in given.known if row not in given.context] == []
        return [(row["topic"], row["first_poll"][-1]) for row in given.context]

    assert context(0, 1) == [("t", "0")]
    assert context(None, 1) == [], "it began in the news"
    assert context(1, 2) == [], "no setting changed"


def test_a_poll_has_the_time_of_its_own_answer_whatever_was_answered_beside_it() -> None:
    polls = {poll.poll_id: poll for poll in news(None, 3).polls()}
    assert {poll_id: poll.at for poll_id, poll in polls.items()} == {
        poll.poll_id: poll.at for poll in LIFE.polls
    }
    alone = GoldInput({SETTINGS: LIFE.rows[SETTINGS]}, "", IDS[3], START)
    assert [poll.at for poll in alone.polls()] == [row["valid_from"] for row in LIFE.rows[SETTINGS]]


def test_rows_of_tables_that_gold_does_not_follow_are_passed_over() -> None:
    rows = SilverRows()
    rows.add("silver.topic_snapshots", {})
    rows.add(CLUSTERS, {"kind": "kafka"})
    assert rows == SilverRows(clusters=[{"kind": "kafka"}])


# --- levels ---


def at_levels(*polls: tuple[int | None, bool] | None) -> Levels:
    """The levels after polls: the finalized metadata.version that each told, and whether the
    cluster migrated then; None: the poll told none.
    """
    levels = Levels()
    for n, told in enumerate(polls):
        poll = Poll(f"s/{n}", START, is_migrating=bool(told and told[1]))
        if told is not None:
            row: Row = {
                "metadata_version_level": told[0],
                "metadata_version_highest": 20 + n,
                "elr_version_level": n,
                "kind": "kafka" if n else "redpanda",
            }
            poll.began.add(CLUSTERS, row)
        levels = levels.at(poll)
    return levels


@pytest.mark.parametrize(
    ("polls", "lower"),
    [
        ([(25, False)], None),
        ([(25, False), None], 25),
        ([(11, False), (25, False)], 11),
        ([(25, False), (11, False)], 11),
        ([(11, False), (25, False), None], 25),
        ([(None, False), (25, False)], None),
        ([(25, False), (None, False)], None),
        ([(25, False), (25, True)], None),
        ([(25, True), (25, False)], 25),
    ],
    ids=[
        "the first poll",
        "no news",
        "raised since the poll before",
        "lowered since",
        "raised earlier",
        "not known before",
        "not known any more",
        "while it migrates from ZooKeeper",
        "after that",
    ],
)
def test_between_two_polls_either_level_may_have_held(
    polls: list[tuple[int | None, bool] | None], lower: int | None
) -> None:
    assert at_levels(*polls).lower == lower


def test_levels_are_those_that_a_poll_told_last() -> None:
    assert at_levels((25, False)) == Levels(25, 0, None, "redpanda", 20)
    assert at_levels((25, False), (26, False), None) == Levels(26, 1, 26, "kafka", 21)


# --- the memory ---


def test_what_is_known_is_what_began_last_and_is_not_over() -> None:
    places = {"topic": "t", "partition": 0}
    told: dict[str, Row] = {
        BROKERS: {"broker_id": 3, "rack": "a"},
        SETTINGS: {"topic": "t", "min_insync_replicas": 2},
        REASSIGNMENTS: places | {"adding_replicas": [4]},
        PARTITION_ELR: places | {"elr": [2], "last_known_elr": [3], "valid_from": START},
    }
    begin, end, change = (Poll(f"s/{n}", START) for n in range(3))
    for table, row in told.items():
        begin.began.add(table, row)
        end.over.add(table, row)
        change.over.add(table, row)
        change.began.add(table, row)
    known = Known()
    known.follow(begin, *told)
    expected = Known(
        racks={3: "a"},
        min_isr={"t": 2},
        adding={("t", 0): [4]},
        elr={("t", 0): Elr([2], [3], START)},
    )
    assert known == expected
    known.follow(change, *told)
    assert known == from_json(Known, to_json(known)) == expected
    known.follow(end, BROKERS)
    assert (known.racks, known.min_isr) == ({}, {"t": 2}), "of the tables that are named"
    known.follow(end, *told)
    assert known == Known()
