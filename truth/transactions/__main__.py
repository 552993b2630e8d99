"""``python -m truth.transactions``: producers commit, abort, die, are fenced and hang while
coordinators are killed; print how history of transactions agrees with what they wrote down and with
the coordinators' log.

Exit status 1 when it does not.
"""

import sys
from collections.abc import Sequence
from typing import Final

from local_cluster.cluster import KAFKA_VERSION
from metadata_source.text import text_table
from truth.arguments import parser
from truth.session import concluded, local_session, saying
from truth.transactions.run import run
from truth.transactions.score import HEADINGS
from truth.transactions.script import TRACKS, write

_SLOTS: Final = 4
VERSIONS: Final = (KAFKA_VERSION, "4.3.1", "3.9.2")
"""Those before KAFKA_VERSION: of KRaft with transactions of version 2, and of version 1."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tracks that are asked for; the exit status is 0 when everything agrees."""
    names = [*TRACKS, "few", "kills"]
    arguments = parser("truth.transactions", __doc__, "tracks", names, VERSIONS).parse_args(argv)
    version, say = arguments.kafka_version, saying()
    say(f"seed {arguments.seed}")
    tracks = write(arguments.seed, arguments.tracks)
    with local_session(_SLOTS) as (spark, folder):
        score = run(spark, tracks, folder / "lake", say=say, kafka_version=version)
    print("\n".join(text_table(("version", *HEADINGS), [(version, *score.row())])), flush=True)
    return concluded(score.faults)


if __name__ == "__main__":
    sys.exit(main())
