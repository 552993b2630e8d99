"""A first run of the jobs, in a folder: history of made-up polls, and a poll without an answer.

spark-submit tools/first_run.py FOLDER
"""

import sys
from datetime import timedelta
from pathlib import Path

from benchmarks.rounds.lakes import MadeUpLake, broker_goes_or_comes, made_up
from benchmarks.rounds.made_up import MadeUpPoller
from benchmarks.rounds.product import config_file
from jobs import pipeline
from jobs.configuration.limits import CROSSED
from jobs.run.session import spark_session


def main(folder: Path) -> int:
    """Return the exit status."""
    poller = MadeUpPoller(
        made_up(["small"], topics=3, partitions=4, brokers=3), timedelta(seconds=2), 5
    )
    lake = MadeUpLake(spark_session("first run"), folder, poller)
    lake.fill()
    lake.round(broker_goes_or_comes(1, place=2)(0))
    status = pipeline.main(["--config", str(config_file(folder)), "--once"])
    return 0 if status == CROSSED else status  # nobody answers the poll


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1], "first-run")))
