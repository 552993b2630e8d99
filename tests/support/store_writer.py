"""One of several drivers that would write a lake: `python -m tests.support.store_writer NAME
TIMES --config FILE` plans so many rounds of a history of that name, prints their numbers, and
stays until it is ended.
"""

import argparse
import signal
from datetime import UTC, datetime

from jobs.configuration.config import load
from jobs.rounds.plan import Rounds
from jobs.run.session import writing_session
from kafka_metadata_history.spark import prepare
from schemas.in_spark import ensure_tables
from schemas.internal import ROUNDS, STATE


def main() -> None:
    """Plan rounds, as quickly as can be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("times", type=int)
    parser.add_argument("--config")
    given = parser.parse_args()
    config = load(given.config)
    prepare("512m", config.spark)
    spark = writing_session("writer", config)
    ensure_tables(spark, config.lake, (ROUNDS, STATE))
    rounds = Rounds(spark, config.lake, [given.name])
    for _ in range(given.times):
        print(rounds.plan({"of": given.name}, datetime.now(UTC)).round, flush=True)
    print("done", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
