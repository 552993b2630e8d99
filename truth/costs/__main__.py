"""``python -m truth.costs``: do things to groups whose members write down their work, and print how
the cost that history tells of their rebalances, and their lag, agree with it.

Exit status 1 if it does not.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from metadata_source.text import text_table
from truth.costs.play import KINDS, LONG
from truth.costs.run import run
from truth.costs.score import HEADINGS
from truth.session import local_session


def main(argv: Sequence[str] | None = None) -> int:
    """Run the kinds that are asked for; the exit status is 0 when everything agrees."""
    parser = argparse.ArgumentParser(
        prog="python -m truth.costs", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument(
        "--kinds", nargs="+", choices=[kind.name for kind in KINDS], help="these alone"
    )
    arguments = parser.parse_args(argv)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that everything that was started is ended
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {what}", flush=True)

    kinds = [kind for kind in KINDS if arguments.kinds is None or kind.name in arguments.kinds]
    # Outside of all else: Spark may be gone already when it is to be stopped.
    with tempfile.TemporaryDirectory(prefix="truth-costs-", ignore_cleanup_errors=True) as folder:
        spark = local_session(4)
        try:
            scores = run(spark, kinds, LONG, Path(folder), say=say)
        finally:
            spark.stop()
    print(
        "\n".join(text_table(HEADINGS, [(group, *score.row()) for group, score in scores.items()]))
    )
    faults = [f"{group}, {fault}" for group, score in scores.items() for fault in score.faults]
    print("\n".join(["", f"{len(faults)} faults", *faults]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
