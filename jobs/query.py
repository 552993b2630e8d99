"""Ask a lake a named question of schemas/queries/, or free SQL, and print the answer.

spark-submit jobs/query.py NAME --config FILE [--since "2 hours"] [--until TIME] [--cluster C]
[--topic T] [--broker ID] [--group G]
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from jobs.configuration.config import load
from jobs.run.cli import parser_of, reported
from jobs.run.session import reading_session
from kafka_metadata_history.answers import questions
from kafka_metadata_history.answers.in_spark import answer
from kafka_metadata_history.answers.text import FORMS, written
from metadata_source.text import counted


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of("query", __doc__, "the lake")
    names = ", ".join(questions.names())
    parser.add_argument("query", metavar="NAME|SQL", help=f"{names}; or a query (SELECT)")
    since = "a time in ISO form, or how long before --until (default %(default)s)"
    parser.add_argument("--since", default="1 day", help=since)
    parser.add_argument("--until", help="a time in ISO form, or how long ago (default: now)")
    for name, narrows in questions.FILTERS.items():
        kind = int if name == "broker" else str
        parser.add_argument(questions.option(name), type=kind, help=narrows)
    parser.add_argument("--format", choices=FORMS, default="table", help="(default %(default)s)")
    parser.add_argument("--wide", action="store_true", help="a table of all columns")
    given = parser.parse_args(argv)

    def run() -> None:
        filters = {name: vars(given)[name] for name in questions.FILTERS}
        now = datetime.now(UTC)
        asked = questions.question(given.query, given.since, given.until, filters, now)
        config = load(given.config)
        ask = partial(answer, reading_session("query", config), config.lake)
        questions.check_filters(asked.filters, ask)
        rows = ask(asked.sql)
        print(written(rows, given.format, wide=given.wide), end="")
        if given.format == "table":
            # spark-submit puts stderr of Python on stdout, where programs want rows alone.
            known = questions.reach(asked, ask, None if given.wide else 1)
            for line in (f"{counted(len(rows), 'row')}, by Spark", *known):
                print(f"query: {line}", file=sys.stderr)

    return reported("query", run)


if __name__ == "__main__":
    sys.exit(main())
