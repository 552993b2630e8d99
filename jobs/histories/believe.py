"""A person says that answers which wait are right."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories.poll_plan import silver_state
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine, log
from schemas.in_spark import ensure_lake
from schemas.lake import LakeError


def believe(engine: Engine, polls: Polls, cluster: str) -> None:
    """Accept the answers of a cluster that wait, as a person says that they are right, and what
    they show.

    Raises LakeError for a cluster of which none waits, once all that is new was taken, or where no
    round takes any.
    """
    engine.catch_up()
    waited = silver_state(engine.context(), cluster).waiting
    if not waited:
        raise LakeError(
            f"no poll of a cluster {cluster!r} waits in {engine.lake}: there is nothing to "
            "believe; `kafka-metadata-history status` says where polls wait"
        )
    gone = polls.new.lost(cluster, waited)
    polls.new.believed = cluster
    try:
        engine.round(datetime.now(UTC))
    finally:
        polls.new.believed = None
    if left := silver_state(engine.context(), cluster).waiting:
        why = (
            "its fold fails, so its history is left out"
            if cluster in engine.left_out
            else "no round took them"
        )
        raise LakeError(
            f"nothing of cluster {cluster!r} was believed, and {len(left)} poll(s) wait: {why}"
        )
    log.info("cluster %s: what waited since poll %s is believed", cluster, waited[0])
    if gone:
        log.warning(
            "cluster %s: bronze has not kept %d of the polls that waited; they wait no more",
            cluster,
            len(gone),
        )


def believing(spark: SparkSession, config: Config, cluster: str) -> None:
    """Accept the answers of a cluster that wait."""
    ensure_lake(spark, config.lake)
    polls = Polls()
    believe(Engine(spark, config, polls), polls, cluster)
