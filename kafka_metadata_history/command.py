"""The command line. Each command is a few lines: what it does is elsewhere."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from jobs.configuration.config import ConfigError, load, parsed
from jobs.configuration.limits import CROSSED
from kafka_metadata_history.answers.asking import answered
from kafka_metadata_history.answers.questions import (
    FILTERS,
    FREE,
    QueryError,
    described,
    listed,
    name_of,
    names,
    one_of,
    option,
    question,
)
from kafka_metadata_history.answers.status_text import FORMS as STATUS_FORMS
from kafka_metadata_history.answers.text import WIDTH
from kafka_metadata_history.answers.thresholds import judge
from kafka_metadata_history.availability import availability
from kafka_metadata_history.client_option import (
    client_option,
    options_of_one,
    read_client,
    servers_of_client,
)
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.diff import diff
from kafka_metadata_history.events import events
from kafka_metadata_history.explain import explain
from kafka_metadata_history.may_stop import may_stop
from kafka_metadata_history.mcp_command import mcp
from kafka_metadata_history.names import FAILED, INTERRUPTED, NAME
from kafka_metadata_history.notify.command import notify
from kafka_metadata_history.opened import MEMORY, needs_no_spark, opened, status_without_spark
from kafka_metadata_history.pack import pack
from kafka_metadata_history.printed import say
from kafka_metadata_history.report_command import report
from kafka_metadata_history.rows_options import print_rows, rows_options
from kafka_metadata_history.serve import serve
from kafka_metadata_history.show import show
from kafka_metadata_history.whatif import whatif
from kafka_metadata_history.window_options import Command, window_options
from metadata_source.errors import KafkaMetadataHistoryError, OptionsError
from metadata_source.options import parse, parse_cluster_log
from metadata_source.text import let_write_all, printable

USAGE = QueryError.exit_status

memory_option = click.option(
    "--memory", default=MEMORY, show_default=True, help="Of the JVM that does the work."
)


def filter_options(command: Command) -> Command:
    """Give a command an option for each filter of a question."""
    for name, narrows in reversed(FILTERS.items()):
        kind = int if name == "broker" else str
        command = click.option(
            option(name), name, type=kind, help=f"{narrows[0].upper()}{narrows[1:]}."
        )(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH})
@click.version_option(package_name=NAME)
def app() -> None:
    """Keep every leader change, ISR shrink and rebalance of your Kafka clusters as Delta tables,
    and ask about them.
    """


class _Query(click.Command):
    """Its help, below a name, is that of the named question."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        context.meta[NAME] = next((each for each in arguments if each in names()), None)
        return super().parse_args(context, arguments)

    def get_help(self, context: click.Context) -> str:
        name = context.meta.get(NAME)
        return super().get_help(context) if name is None else "\n".join(described(name))


@app.command(cls=_Query)
@click.argument("asked", metavar="[NAME|SELECT]", required=False)
@config_option
@window_options()
@filter_options
@rows_options
@click.option(
    "--spark",
    "by_spark",
    is_flag=True,
    help="Let Spark answer, which knows all of its SQL and takes longer.",
)
def query(
    *,
    asked: str | None,
    config: str,
    since: str,
    until: str | None,
    form: str,
    limit: int | None,
    wide: bool,
    by_spark: bool,
    **filters: object,
) -> None:
    """Ask the lake a question by its name, or in SQL. Without either, list the questions. NAME
    --help explains one.
    """
    if asked is None:
        click.echo("\n".join(listed()))
        return
    of = question(asked, since, until, filters, datetime.now(UTC))
    read = load(config)
    lake = opened(read.lake, by_spark=by_spark, spark=read.spark)
    answer = answered(lake, of, None if wide else 1)
    if name_of(asked) != FREE and not answer.clusters:
        answer = replace(answer, clusters=frozenset(read.clusters))
    print_rows(lake, answer, form, limit, wide=wide)


@app.command()
@config_option
@click.option(
    "--format", "form", type=click.Choice(tuple(STATUS_FORMS)), default="table", show_default=True
)
def status(*, config: str, form: str) -> int:
    """Say how recording fares: polls, failures, gaps, sizes. Exits 3 if a threshold is crossed."""
    read = load(config)
    if not needs_no_spark(read.lake):
        return in_spark("status", config, "--format", form)
    found = status_without_spark(read, datetime.now(UTC))
    crossed = judge(found, read.limits)
    click.echo(STATUS_FORMS[form](found, crossed), nl=False)
    return CROSSED if crossed else 0


app.add_command(explain)
app.add_command(events)
app.add_command(report)
app.add_command(availability)
app.add_command(whatif)
app.add_command(show)
app.add_command(diff)
app.add_command(may_stop)
app.add_command(serve)
app.add_command(notify)
app.add_command(mcp)
app.add_command(pack)


@app.command()
@config_option
@click.option(
    "--alias",
    prompt="Your name for the cluster, for good",
    help="Your name for the cluster, for good.",
)
@client_option
@click.option(
    "--bootstrap",
    prompt="Its bootstrap servers (host:port, ...)",
    default=servers_of_client,
    help="HOST:PORT, comma-separated. Default: those of --client.",
)
@click.option(
    "--lake", default="lake", prompt="Folder for the tables", help="Folder of the tables."
)
@click.option(
    "--option",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the cluster: kafka.*, kind.",
)
def init(
    *, config: str, alias: str, bootstrap: str, lake: str, given: Sequence[str], client: Path | None
) -> int:
    """Write a configuration for a cluster, once it was polled. Asks for what is not given."""
    from kafka_metadata_history.check import LOGS, checked, elsewhere, lines  # noqa: PLC0415 - Kafka's client takes a second
    from kafka_metadata_history.first_config import tried_options, written  # noqa: PLC0415

    if Path(config).exists():
        raise ConfigError(f"{config} is there already; nothing was written")
    file = read_client(client)
    own = (file.at(bootstrap) if file else {"kafka.bootstrap.servers": bootstrap}) | _pairs(given)
    (found,) = checked(tried_options(alias, own), read=LOGS)
    say(lines(found, whole=False))
    if found.problem is not None:
        return CROSSED
    text = written(lake, own, found)
    read = parsed(text, config)  # as every command will
    try:
        with Path(config).open("x", encoding="utf-8") as new:
            new.write(text)
    except OSError as error:
        raise ConfigError(f"{config}: cannot be written: {error.strerror}") from error
    say(filter(None, [elsewhere(read.lake, read.spark)]))
    say([f"{config} is written; `{NAME} run --config {config}` begins to record"])
    return 0


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = {
        name: (is_there, value) for name, is_there, value in (each.partition("=") for each in given)
    }
    for name, (is_there, _) in pairs.items():
        if not is_there:
            raise click.BadParameter(f"{name}: not NAME=VALUE", param_hint="--option")
    return {name: value for name, (_, value) in pairs.items()}


@app.command()
@config_option
@click.option(
    "--bootstrap", metavar="HOST:PORT", help="Check this cluster alone, without a configuration."
)
@client_option
@click.option(
    "--cluster", help="Check this cluster of the configuration alone, and show its state."
)
def check(*, config: str, bootstrap: str | None, client: Path | None, cluster: str | None) -> int:
    """Poll each cluster once; say which permissions are missing. Writes nothing. Exits 3 if
    anything is amiss.
    """
    from kafka_metadata_history.check import (  # noqa: PLC0415 - Kafka's client takes a second
        LOGS,
        checked,
        elsewhere,
        lines,
        unwritable,
    )

    logs = no_place = None
    is_read = True
    alone = options_of_one(bootstrap, client)
    if alone is not None:
        options, reads = alone, []
    else:
        read = load(config)
        options = parse(read.source_options({}), "stream")
        of_logs = zip(LOGS, (read.group_log, read.transaction_log), strict=True)
        reads = [key for key, given in of_logs if given is not None]
        no_place = unwritable(read.lake)
        say(filter(None, [elsewhere(read.lake, read.spark)]))
        if read.lake.is_object_store:
            from kafka_metadata_history.check_store import checked_store  # noqa: PLC0415 - as above

            store = checked_store(read.lake)
            click.echo("\n".join(map(printable, store.lines)))
            is_read = store.is_good
        if read.cluster_log is not None:
            logs = parse_cluster_log(read.cluster_log_options({}), "stream")
    if cluster is not None:
        one_of([each.alias for each in options.clusters], cluster, "the configuration")
    chosen = tuple(each for each in options.clusters if cluster in {None, each.alias})
    say(
        f"cluster {each.alias}: warning: {each.exposed}"
        for each in chosen
        if each.exposed is not None
    )
    found = checked(replace(options, clusters=chosen), read=reads, logs=logs)
    for each in found:
        click.echo(
            "\n".join(
                map(printable, lines(each, whole=len(found) == 1, is_configured=alone is None))
            )
        )
    if no_place is not None:
        click.echo(printable(no_place))
    is_good = no_place is None and is_read and all(each.is_good for each in found)
    return 0 if is_good else CROSSED


@app.command()
@config_option
@click.option(
    "--once", is_flag=True, help="Poll once, make history of it, and end: for schedulers."
)
@click.option(
    "--believe", metavar="CLUSTER", help="First believe the answers of this cluster that wait."
)
@memory_option
def run(*, config: str, once: bool, believe: str | None, memory: str) -> int:
    """Poll the clusters, keep their history, until a signal comes."""
    given = [
        *(["--once"] if once else []),
        *(["--believe", believe] if believe is not None else []),
    ]
    return in_spark("pipeline", config, *given, memory=memory)


@app.command()
@config_option
@memory_option
def validate(*, config: str, memory: str) -> int:
    """Hold what is new in the lake against its rules. Exits 3 if a rule that is critical is
    broken.
    """
    return in_spark("validate", config, memory=memory)


@app.command()
@config_option
@memory_option
def maintain(*, config: str, memory: str) -> int:
    """Drop rows past their retention, and tidy files up. `run` does so by itself."""
    return in_spark("maintain", config, memory=memory)


@app.command()
@config_option
@click.option("--dry-run", is_flag=True, help="Say what would be done, and how long it takes.")
@click.option("--undo", is_flag=True, help="Take an upgrade back, for seven days.")
@memory_option
def upgrade(*, config: str, dry_run: bool, undo: bool, memory: str) -> int:
    """Make a lake of an older version one of this version. Broken off, run it again."""
    if dry_run and undo:
        raise click.UsageError("--dry-run and --undo exclude each other")
    given = [*(["--dry-run"] if dry_run else []), *(["--undo"] if undo else [])]
    return in_spark("upgrade", config, *given, memory=memory)


@app.command()
@config_option
@click.option("--to", required=True, metavar="PLACE", help="A folder or URI, without files.")
@click.option("--cluster", metavar="ALIAS", help="The history of this cluster alone.")
@memory_option
def export(*, config: str, to: str, cluster: str | None, memory: str) -> int:
    """Copy the lake to Parquet, with a manifest: a folder a table. Reads lakes of older versions,
    too.
    """
    given = [] if cluster is None else ["--cluster", cluster]
    return in_spark("export", config, "--to", to, *given, memory=memory)


@app.command("import")
@config_option
@click.option("--from", "place", metavar="PLACE", help="A folder or URI of `export`.")
@click.option("--undo", is_flag=True, help="Take back an import that has not ended.")
@memory_option
def import_history(*, config: str, place: str | None, undo: bool, memory: str) -> int:
    """Take what `export` has written into the lake. It may be of an older version."""
    if undo == (place is not None):
        raise click.UsageError("give --from PLACE, or --undo")
    given = ["--undo"] if place is None else ["--from", place]
    return in_spark("import_history", config, *given, memory=memory)


@app.command()
@click.argument("text")
@config_option
@click.option("--since", help="A time in ISO form, or how long ago. Default: now.")
@click.option("--until", help="The end of a window, in the same forms. Default: none, a moment.")
@click.option("--cluster", help="Of this cluster alone, by its alias. Default: of all.")
@memory_option
def mark(*, text: str, config: str, memory: str, **given: str | None) -> int:
    """Mark a change, or a window of maintenance. Timelines, reports and `availability` show it
    beside what happened.
    """
    options = [
        word for name, value in given.items() if value is not None for word in (option(name), value)
    ]
    return in_spark("mark", config, *options, "--", text, memory=memory)


@app.command()
@click.option(
    "--folder",
    default=".demo",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Its configuration, lake and report; made again each time.",
)
def demo(*, folder: Path) -> int:
    """Record an incident on a real Kafka here, and ask about it."""
    from kafka_metadata_history.demo import played  # noqa: PLC0415 - Kafka's clients take a second

    try:
        played.demo(folder, exit_status)
    except played.DemoError as error:
        say(f"{NAME}: {error}".splitlines())
        return FAILED
    return 0


def in_spark(job: str, config: str, *arguments: str, memory: str = MEMORY) -> int:
    """Run a job in a session of its own and return its exit status. Raises ConfigError."""
    from jobs.run.session import SessionError  # noqa: PLC0415 - PySpark takes seconds
    from kafka_metadata_history.spark import run_job  # noqa: PLC0415

    try:
        return run_job(job, ["--config", config, *arguments], memory, load(config).spark)
    except SessionError as error:
        say([f"{NAME}: {error}"])
        return FAILED


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its status."""
    let_write_all(sys.stdout, sys.stderr)
    sys.exit(exit_status(argv))


def exit_status(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; whatever is wrong is one line."""
    try:
        found: int | None = app(args=argv, prog_name=NAME, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OptionsError as error:
        say([f"{NAME}: {error.problem}"])
        return FAILED
    except KafkaMetadataHistoryError as error:
        say([f"{NAME}: {error}"])
        return error.exit_status
    return found or 0
