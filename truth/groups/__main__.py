"""``python -m truth.groups``: do things to groups of every kind, some of whose members write down
their work, and print how history of rebalances, their costs and lag agrees with what happened.

Exit status 1 when it does not.
"""

import sys
from collections.abc import Sequence
from typing import Final

from metadata_source.text import text_table
from truth.arguments import parser
from truth.groups.run import NEWEST, run
from truth.groups.score import HEADINGS
from truth.groups.script import KINDS
from truth.session import concluded, local_session, saying

_SLOTS: Final = 4
VERSIONS: Final = (NEWEST, "3.9.2")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the kinds that are asked for; the exit status is 0 when everything agrees."""
    names = [kind.name for kind in KINDS]
    arguments = parser("truth.groups", __doc__, "kinds", names, VERSIONS).parse_args(argv)
    version, say = arguments.kafka_version, saying()
    wanted = [
        kind
        for kind in KINDS
        # 3.9 refuses to format its preview of the new protocols (group.version=1).
        if (version == NEWEST or kind.protocol == "classic")
        and (arguments.kinds is None or kind.name in arguments.kinds)
    ]
    # Those with a JVM for each member, and those that work, have the machine to themselves.
    alike = [(java, works) for works in (False, True) for java in (False, True)]
    faults: list[str] = []
    with local_session(_SLOTS) as (spark, folder):
        for of in alike:
            if kinds := [kind for kind in wanted if (kind.java, kind.work is not None) == of]:
                asked = {"seed": arguments.seed, "say": say, "kafka_version": version}
                scores = run(spark, kinds, folder / kinds[0].name, **asked)
                rows = [(group, *score.row()) for group, score in scores.items()]
                print("\n".join(text_table(HEADINGS, rows)), flush=True)
                faults += [
                    f"{group}, {each}" for group, score in scores.items() for each in score.faults
                ]
    return concluded(faults)


if __name__ == "__main__":
    sys.exit(main())
