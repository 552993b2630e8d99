"""``python -m truth.groups``: do things to groups of every kind, and print how history agrees with
what happened.

Exit status 1 when it does not.
"""

import argparse
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from metadata_source.text import text_table
from truth.groups.run import NEWEST, run
from truth.groups.script import KINDS
from truth.session import local_session

HEADINGS: Final = ("group", "steps", "rebalances", "members", "events", "faults")
_SLOTS: Final = 4
VERSIONS: Final = (NEWEST, "3.9.2")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the kinds that are asked for; the exit status is 0 when everything agrees."""
    arguments = _parser().parse_args(argv)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that everything that was started is ended
    # 3.9 refuses to format its preview of the new protocols (group.version=1).
    there = [
        kind for kind in KINDS if arguments.kafka_version == NEWEST or kind.protocol == "classic"
    ]
    wanted = [kind for kind in there if arguments.kinds is None or kind.name in arguments.kinds]
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {what}", flush=True)

    # Outside of all else: Spark may be gone already when it is to be stopped.
    with tempfile.TemporaryDirectory(prefix="truth-groups-", ignore_cleanup_errors=True) as folder:
        spark = local_session(_SLOTS)
        try:
            # Those with a JVM for each member have the machine to themselves.
            batches = [[kind for kind in wanted if kind.java == java] for java in (False, True)]
            asked = {"seed": arguments.seed, "say": say, "kafka_version": arguments.kafka_version}
            runs = [
                run(spark, kinds, Path(folder) / kinds[0].name, **asked)
                for kinds in batches
                if kinds
            ]
        finally:
            spark.stop()
    scores = {group: score for done in runs for group, score in done.scores().items()}
    print(
        "\n".join(text_table(HEADINGS, [(group, *score.row()) for group, score in scores.items()]))
    )
    faults = [f"{group}, {fault}" for group, score in scores.items() for fault in score.faults]
    print("\n".join(["", f"{len(faults)} faults", *faults]))
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m truth.groups", description="Hold rebalance history against real groups."
    )
    parser.add_argument(
        "--kinds", nargs="+", choices=[kind.name for kind in KINDS], help="these alone"
    )
    parser.add_argument(
        "--kafka-version", choices=VERSIONS, default=NEWEST, help="before 4.0 classic groups alone"
    )
    seed = secrets.randbelow(100_000)
    parser.add_argument(
        "--seed", type=int, default=seed, help="decides what is done (default: another each time)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
