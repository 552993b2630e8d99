"""How much polls miss, as one query says of rows by hand."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from truth.missed import ask

START = datetime(2026, 11, 21, 8, tzinfo=UTC)
LEADERS = (
    "id STRING, topic_id STRING, partition INT, prev_leader INT, leader INT, prev_leader_epoch "
    "INT, leader_epoch INT, began_after TIMESTAMP, began_before TIMESTAMP"
)
ISR = (
    "id STRING, topic_id STRING, partition INT, broker_id INT, change STRING, began_after "
    "TIMESTAMP, began_before TIMESTAMP"
)


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def leader(
    since: float, until: float, leaders: Sequence[int], epochs: Sequence[int], partition: int = 0
) -> tuple:
    name = f"{partition} {epochs}"
    return (name, "orders", partition, *leaders, *epochs, second(since), second(until))


def isr(since: float, until: float, broker: int, change: str) -> tuple:
    return (f"{broker} {since}", "orders", 0, broker, change, second(since), second(until))


def test_what_polls_show_count_and_miss(spark: SparkSession) -> None:
    rows = {
        # Watched from 1 to 99.
        "polls_metadata_polls": (
            "record STRING, outcome STRING, sent_at TIMESTAMP, received_at TIMESTAMP",
            [("poll", "ok", second(0), second(1)), ("poll", "ok", second(99), second(100)),
             ("poll", "failed", second(200), second(201))],
        ),
        "log_leader_changes": (
            LEADERS,
            [
                leader(0.5, 0.5, (3, 1), (0, 1)),  # before the first poll
                leader(10, 10, (1, 2), (1, 2)),
                leader(12, 12, (2, -1), (2, 3)), leader(13, 13, (-1, 1), (3, 4)),
                leader(20, 20, (1, 1), (4, 5)),  # the same leader again: no change
                leader(30, 30, (1, 2), (0, 1), partition=7),
                leader(150, 150, (1, 2), (5, 6)),
            ],
        ),
        "polls_leader_changes": (
            LEADERS, [leader(9, 11, (1, 2), (1, 2)), leader(11, 14, (2, 1), (2, 4))],
        ),
        "log_isr_changes": (
            ISR,
            [
                isr(10, 10, 1, "left"),  # as old as an answer may be
                isr(20, 20, 2, "left"), isr(21, 21, 2, "rejoined"), isr(22, 22, 2, "left"),
                isr(30, 30, 3, "left"), isr(31, 31, 3, "rejoined"),
                isr(40, 40, 4, "initially_out"),
            ],
        ),
        "polls_isr_changes": (
            ISR, [isr(10.5, 12, 1, "left"), isr(19, 23, 2, "left"), isr(39, 41, 4, "left")],
        ),
    }  # fmt: skip
    for name, (schema, of_view) in rows.items():
        spark.createDataFrame(of_view, schema).createOrReplaceTempView(name)
    assert ask(spark, timedelta(seconds=0.6)) == [
        ("leader changes", 4, 1, 1, 1, 1),
        ("ISR changes", 6, 1, 1, 0, 4),
    ]
