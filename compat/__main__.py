"""``python -m compat``: the same script on real versions of Kafka, and whether history is what must
come of it; and whether the tables of messages and records are the definitions of the newest of
them; and what is said of odd answers of a server that is not Kafka.

Exit status 1 when it is not.
"""

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compat import foreign
from compat.definitions import METADATA, RECORDS, differences
from compat.run import run
from compat.versions import VERSIONS
from kafka_metadata_history.jars.errors import JarsError
from local_cluster import LocalClusterError
from local_cluster.cluster import KAFKA_VERSION
from metadata_source.text import text_table
from truth.administration import AdministrationError
from truth.dump import TruthError
from truth.session import local_session

HEADINGS: Final = ("version", "what", "rows", "how sure", "faults")
_SLOTS: Final = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the versions that are asked for; the exit status is 0 when everything agrees."""
    arguments = _parser().parse_args(argv)
    # So that everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = [
        version
        for version in VERSIONS
        if arguments.versions is None or version.name in arguments.versions
    ]
    started = time.monotonic()
    faults = [f"{KAFKA_VERSION}: definitions: {each}" for each in differences(KAFKA_VERSION)]
    rows: list[tuple[object, ...]] = [
        (KAFKA_VERSION, "definitions", len(METADATA) + len(RECORDS), "exact", len(faults))
    ]
    if arguments.versions is None:
        rows.append(_foreign(faults))
    # Outside of all else: Spark may be gone already when it is to be stopped.
    with tempfile.TemporaryDirectory(prefix="compat-", ignore_cleanup_errors=True) as folder:
        spark = local_session(_SLOTS)
        try:
            for number, version in enumerate(wanted):

                def say(what: str, name: str = version.name) -> None:
                    print(f"[{time.monotonic() - started:4.0f} s] {name}: {what}", flush=True)

                try:
                    compared = run(spark, version, Path(folder) / str(number), say)
                except (LocalClusterError, JarsError, AdministrationError, TruthError) as error:
                    faults.append(f"{version.name}: {error}")
                    rows.append((version.name, "does not run", 0, "", 1))
                    continue
                for each in compared:
                    rows.append((version.name, each.what, each.rows, each.sure, len(each.faults)))
                    faults += [f"{version.name}: {each.what}: {fault}" for fault in each.faults]
        finally:
            spark.stop()
    print("\n".join(text_table(HEADINGS, rows)))
    print("\n".join(["", f"{len(faults)} faults", *faults]))
    return 1 if faults else 0


def _foreign(faults: list[str]) -> tuple[object, ...]:
    """Check kfake, add what is wrong to `faults`, and return a row of the table."""
    go_command = foreign.go()
    if go_command is None:
        print(f"{foreign.NAME}: skipped: there is no Go on this machine (go.dev/dl)", flush=True)
        return foreign.NAME, "skipped: no Go", 0, "", 0
    with tempfile.TemporaryDirectory(prefix="kfake-") as folder:
        try:
            found = [f"{foreign.NAME}: {each}" for each in foreign.faults(go_command, Path(folder))]
        except subprocess.SubprocessError as error:
            found = [f"{foreign.NAME}: it cannot be built: {error}"]
    faults += found
    return foreign.NAME, "odd answers", len(foreign.ODD), "exact", len(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compat", description="The same script on real versions of Kafka."
    )
    names = [version.name for version in VERSIONS]
    parser.add_argument(
        "--versions",
        nargs="+",
        choices=names,
        metavar="NAME",
        help=f"these alone: {', '.join(names)}",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
