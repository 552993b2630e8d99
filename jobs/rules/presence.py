"""When a topic is there, when it is believed to be gone, and why.

A topic absent from two good polls ends, as of the first of them: `absent` (inferred: deleted), `unauthorized` (error 29),
or `not_polled` (the filter no longer covers it). One whose name comes back with another topic id ends at once:
`recreated`. One absent from a single poll never went away.
"""

import json

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from metadata_source.options import whole_name

UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_AUTHORIZATION_FAILED = 29

ABSENT = "absent"
UNAUTHORIZED = "unauthorized"
NOT_POLLED = "not_polled"
RECREATED = "recreated"

ABSENT_POLLS = 2
"""Good polls without a topic after which it is believed to be gone."""


def absence(present: Column, error_code: Column) -> Column:
    """Why an answered topic counts as missing; null when it is there."""
    return (
        F.when(~present, F.lit(ABSENT))
        .when(error_code == UNKNOWN_TOPIC_OR_PARTITION, F.lit(ABSENT))
        .when(error_code == TOPIC_AUTHORIZATION_FAILED, F.lit(UNAUTHORIZED))
    )


def covered(topic_filter: Column, topic: Column) -> Column:
    """Whether a poll with this filter (as in bronze: null, or JSON) asks for `topic`."""
    # As the poller matches, with RE2: Java reads some of the same patterns otherwise, or not at all.
    return F.arrow_udf(asked_for, BooleanType())(topic_filter, topic)


def asked_for(topic_filter: pa.Array, topic: pa.Array) -> pa.Array:
    """`covered` over Arrow arrays."""
    covered = pa.array([True] * len(topic))
    for text in topic_filter.unique().drop_null().to_pylist():
        asked = json.loads(text)
        if "topics" in asked:
            of_this = pc.is_in(topic, pa.array(asked["topics"], topic.type))
        else:
            of_this = pc.match_substring_regex(topic, whole_name(asked["pattern"]))
        covered = pc.if_else(pc.fill_null(pc.equal(topic_filter, text), False), of_this, covered)
    return covered


def topic_lives(topics: DataFrame, last_ord: DataFrame) -> DataFrame:
    """Number the lives of each topic name, and say when and as what each ended.

    `topics`: cluster, topic, ord, absent_as (null when present), topic_id, and whatever else; what accepted polls
    said, one row for each cluster, topic and ord. `last_ord`: cluster, last_ord (of the last accepted poll).

    Returns the rows where the topic was present, with `life`, `life_ended_ord`, `life_ended_as` (null: it goes on) and
    `missing` (it is absent from the last poll, and that is not believed yet).
    """
    by_topic = Window.partitionBy("cluster", "topic").orderBy("ord")
    present = F.col("absent_as").isNull()

    # The first row of each absence stands for the whole of it; its reason is that of the poll that settled it.
    settled_at = F.lead("ord").over(by_topic) == F.col("ord") + ABSENT_POLLS - 1
    absences = (
        topics.withColumn(
            "absent_as",
            F.when(present, None).otherwise(
                F.when(settled_at, F.coalesce(F.lead("absent_as").over(by_topic), "absent_as")).otherwise(
                    F.col("absent_as")
                )
            ),
        )
        .withColumn("_was_present", F.coalesce(F.lag(present).over(by_topic), F.lit(False)))
        .where(present | F.col("_was_present"))
        .join(F.broadcast(last_ord), "cluster")
        .withColumn("_polls", F.coalesce(F.lead("ord").over(by_topic), F.col("last_ord") + 1) - F.col("ord"))
    )
    gone = ~present & (F.col("_polls") >= ABSENT_POLLS)

    # Within a stretch without such an end, another id under the same name is another topic.
    stretch = F.coalesce(F.sum(gone.cast("int")).over(by_topic.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    by_stretch = Window.partitionBy("cluster", "topic", "_stretch").orderBy("ord")
    known_id = F.last("topic_id", ignorenulls=True).over(by_stretch.rowsBetween(Window.unboundedPreceding, -1))
    recreated = F.coalesce(present & (F.col("topic_id") != known_id), F.lit(False))
    numbered = (
        absences.withColumn("_gone", gone)
        .withColumn("_stretch", stretch)
        .withColumn("_recreated", recreated)
        .withColumn("life", F.col("_stretch") + F.sum(F.col("_recreated").cast("int")).over(by_topic))
    )

    # A life ends where it was found gone, or where the next one was found in its place (or in the poll of absence before).
    by_life = Window.partitionBy("cluster", "topic", "life")
    next_recreated = F.lead("_recreated").over(by_topic)
    ended = numbered.withColumns(
        {
            "_end": F.when(F.col("_gone"), F.col("ord"))
            .when(next_recreated & ~present, F.col("ord"))
            .when(next_recreated, F.lead("ord").over(by_topic)),
            "_end_as": F.when(F.col("_gone"), F.col("absent_as")).when(next_recreated, F.lit(RECREATED)),
            "_missing": ~present & F.lead("ord").over(by_topic).isNull() & ~F.col("_gone"),
        }
    )
    return (
        ended.withColumns(
            {
                "life_ended_ord": F.max("_end").over(by_life),
                "life_ended_as": F.max("_end_as").over(by_life),
                "missing": F.max("_missing").over(by_life),
            }
        )
        .where(present)
        .drop("last_ord", *(name for name in ended.columns if name.startswith("_")))
    )
