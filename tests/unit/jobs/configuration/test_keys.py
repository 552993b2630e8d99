"""How the value of each key is read, and one clear line for each mistake."""

from pathlib import Path

import pytest

from jobs.configuration.config import ConfigError, load
from metadata_source.options import parse, parse_group_log
from tests.support.configurations import GOOD, config
from tests.support.for_each import for_each


def test_questions_are_a_mapping_to_their_intervals(tmp_path: Path) -> None:
    text = GOOD.replace("  prod:\n", "  prod:\n    enrich: {groups: 30s, elr: }\n")
    more = "  other: {kafka.bootstrap.servers: b3:9092}\npoll:\n  enrich: {configs: 10m}\n"
    read = load(str(config(tmp_path, text.replace("poll:\n", more))))
    polling = parse(read.source_options({}), "stream").polling
    assert {alias: dict(each.enrich) for alias, each in polling.items()} == {
        "prod": {"groups": 30_000, "elr": 60_000},
        "other": {"configs": 600_000},
    }
    nothing = load(str(config(tmp_path, GOOD.replace("poll:\n", "poll:\n  enrich: {}\n"))))
    assert nothing.source_options({})["enrich"] == "none"
    with pytest.raises(ConfigError, match=r"poll.enrich.configs: a mapping is not text"):
        load(str(config(tmp_path, GOOD.replace("poll:\n", "poll:\n  enrich: {configs: {a: b}}\n"))))


@for_each("text", ["03303560", "12_34", "1e3", "0x1f", "1:30", "2026-11-01", "12.5", "no", "True"])
def test_a_text_is_kept_as_it_is_written(tmp_path: Path, text: str) -> None:
    """YAML alone would make a number, a date or a truth of it."""
    given = GOOD.replace("monitor", text).replace(
        "[orders, payments]", f"[{text.replace(':', '.')}, x]"
    )
    given = given.replace("/data/lake", f"/data/{text}\nvalidation: {{docs: {text}}}")
    read = load(str(config(tmp_path, given)))
    assert parse(read.source_options({})).clusters[0].sasl_username == text
    assert (read.poll["topics"], read.lake.root) == (f"{text.replace(':', '.')},x", f"/data/{text}")
    assert read.docs == str(tmp_path / text)


@pytest.mark.parametrize("alias", ["0123", "12_34", "2026-11-01", "no", "1e3"])
def test_an_alias_is_kept_as_it_is_written(tmp_path: Path, alias: str) -> None:
    read = load(str(config(tmp_path, GOOD.replace("  prod:", f"  {alias}:"))))
    assert (
        list(read.clusters)
        == [cluster.alias for cluster in parse(read.source_options({})).clusters]
        == [alias]
    )


def test_numbers_times_and_truths_are_read_where_a_key_asks_for_one(tmp_path: Path) -> None:
    text = GOOD.replace("flaps: 4", "flaps: 1_000").replace("storm: 7", "storm: '7'")
    text = text.replace(
        "  prod:\n", "  prod:\n    maxResponseBytes: 16_777_216\n    migrating: Yes\n"
    )
    read = load(
        str(config(tmp_path, f"{text}groupLog:\n  startingOffsets: 2026-11-22T09:00:00Z\n"))
    )
    assert (read.thresholds.flaps, read.thresholds.storm, read.migrating) == (1_000, 7, {"prod"})
    assert parse(read.source_options({})).clusters[0].max_response_bytes == 16_777_216
    assert parse_group_log(read.group_log_options({}), "stream").starting == 1_795_338_000_000


@pytest.mark.parametrize(
    ("lake", "docs", "expected"),
    [
        ("/data/lake", "", "/data/lake/quality/data_docs"),
        ("/data/lake", "validation: {docs: /var/www/docs}", "/var/www/docs"),
        ("s3a://data/lake", "", None),
        ("s3a://data/lake", "validation: {docs: /var/www/docs}", "/var/www/docs"),
    ],
)
def test_data_docs_are_a_folder_of_this_machine(
    tmp_path: Path, lake: str, docs: str, expected: str | None
) -> None:
    text = GOOD.replace("lake: /data/lake", f"lake: {lake}\n{docs}")
    assert load(str(config(tmp_path, text))).docs == expected


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("lake: /data/lake", "lakes: /data/lake", "unknown key lakes; did you mean lake?"),
        ("lake: /data/lake", "", "lake is missing"),
        (
            "lake: /data/lake",
            "lake: /data/lake\nvalidation: {docs: 's3a://docs'}",
            (
                "validation.docs: s3a://docs is not a folder of this machine, the only place that "
                "data docs can be"
            ),
        ),
        (
            "lake: /data/lake",
            "lake: /data/lake\nspool: 's3a://spool'",
            (
                "spool: s3a://spool is not a folder of this machine, the only place that a spool "
                "can be"
            ),
        ),
        ("lake: /data/lake", "lake: /data/lake\nspool: [a]", "spool is not a folder or URI"),
        (
            "poll:\n",
            "poll:\n  Spool: /spool\n",
            "poll.Spool: it is a key of the file itself, beside poll",
        ),
        ("lake: /data/lake", "lake: {catalog: main}", "checkpoints is missing"),
        (
            "lake: /data/lake",
            "lake: {catalogue: main}",
            "unknown key lake.catalogue; did you mean lake.catalog?",
        ),
        ("lake: /data/lake", "lake: [3]", "lake is neither a folder or URI nor {catalog: NAME}"),
        ("  flaps: 4", "  flap: 4", "unknown key thresholds.flap; did you mean thresholds.flaps?"),
        ("  flaps: 4", "  flaps: 0", "thresholds.flaps: 0 is not a whole number from 1 on"),
        (
            "  flaps: 4",
            "  flaps: often",
            "thresholds.flaps: 'often' is not a whole number from 1 on",
        ),
        ("  flapWindow: 1h", "  flapWindow: long", "thresholds.flapWindow: "),
        (
            "thresholds:",
            "severities: {under_min_isr: soon}\nthresholds:",
            "severities.under_min_isr: 'soon' is neither like 'ticket=1m, page=5m' nor 'info'",
        ),
        (
            "thresholds:",
            "severities: {under_min_isr: 'page=1m, page=2m'}\nthresholds:",
            "severities.under_min_isr: ",
        ),
        (
            "thresholds:",
            "severities: {broker_mising: info}\nthresholds:",
            "did you mean severities.broker_missing?",
        ),
        (
            "  storm: 7",
            "  storms: 7",
            "unknown key thresholds.storms; did you mean thresholds.storm?",
        ),
        ("  storm: 7", "  storm: 1", "thresholds.storm: 1 is not a whole number from 2 on"),
        (
            "  storm: 7",
            "  crashLoop: 2.5",
            "thresholds.crashLoop: '2.5' is not a whole number from 2 on",
        ),
        ("  storm: 7", "  stormWindow: 0 days ago", "thresholds.stormWindow: "),
        (
            "  bronze: 3d",
            "  bronz: 3d",
            "unknown key retention.bronz; did you mean retention.bronze?",
        ),
        ("  bronze: 3d", "  bronze: soon", "retention.bronze"),
        *(
            (
                "  bronze: 3d",
                f"  {key}: {age}",
                f"retention.{key}: {age!r} is not a number of days: write it as 7d",
            )
            for key, ages in (
                (
                    "bronze",
                    ("12M", "12m", "1s", "48h", "1y", "52w", "6 months", "7", "1.5d", "-1d"),
                ),
                ("silver", ("12M",)),
                ("groupLag", ("12M",)),
            )
            for age in ages
        ),
        ("  bronze: 3d", "  bronze: 0d", "retention.bronze: '0d' is less than 1d, the least"),
        (
            "  bronze: 3d",
            "  silver: 00 days",
            "retention.silver: '00 days' is less than 1d, the least",
        ),
        (
            "  gold: 400 days",
            "  gold: 99999999999d",
            "retention.gold: '99999999999d' is longer than 999999999d",
        ),
        (
            "retention:\n",
            "status: {behind: 99999999999d}\nretention:\n",
            "status.behind: '99999999999d' is longer than",
        ),
        ("  pollInterval: 15s", "  pollIntervall: 15s", "did you mean 'pollInterval'"),
        ("  pollInterval: 15s", "  topicsPattern: o.*", "topics: contradicts topicsPattern"),
        (
            "  pollInterval: 15s",
            "  pollInterval: [[1]]\n  entity: {a: 1}",
            "poll.entity: a mapping is not text or a whole number",
        ),
        ("  pollInterval: 15s", "  pollInterval: 1.5", "pollInterval: '1.5' is not a duration"),
        (
            "  pollInterval: 15s",
            "  clusters: x",
            "poll.clusters: set it under clusters: it is of one cluster",
        ),
        ("  bronze: 3d", "  bronze: 9999999999d", "retention.bronze"),
        ("clusters:\n", "clusters:\n  prod: {}\n", "prod is given twice"),
        (
            "lake: /data/lake",
            "lake: /data/lake\ncheckpoints: {x: 1}",
            "checkpoints is not a folder or URI",
        ),
        ("lake: /data/lake", "lake: it's", "' cannot be in the name of a lake"),
        (
            "kafka.sasl.password: env:PASSWORD",
            "kafka.sasl.password: hunter2",
            "kafka.sasl.password",
        ),
        *(
            (
                "kafka.sasl.password: env:PASSWORD",
                f"kafka.sasl.password: {value}",
                f"kafka.sasl.password: {says}",
            )
            for value, says in (
                ("{hunter2: 1}", "a mapping is not"),
                ("2026-11-01", "not a reference"),
                ("12.5", "not a reference"),
            )
        ),
        (
            "kafka.sasl.password: env:PASSWORD",
            "kafka.sasl.password: hunter2: x",
            "not YAML: mapping values",
        ),
        (
            "kafka.sasl.password: env:PASSWORD",
            "kafka.sasl.password: !!timestamp hunter2",
            "a value has a tag",
        ),
        (
            "kafka.sasl.password: env:PASSWORD",
            "kafka.sasl.password: [hunter2, [x]]",
            "not a reference",
        ),
        ("    kafka.bootstrap.servers: b1:9092,b2:9092\n", "", "kafka.bootstrap.servers: missing"),
        ("clusters:\n", "clusters: []\nx:\n", "unknown key x"),
        ("  prod:\n", "  ~:\n", "clusters: a name in it is nothing (null): quote it"),
        ("  prod:\n", "  12:30:\n", "the alias '12:30' is not 1 to 100 letters"),
        ("kafka.sasl.username: monitor", "kafka.sasl.username: ", "kafka.sasl.username: empty"),
        (
            "topics: [orders, payments]",
            "topics: [orders, ~]",
            "topics: '' cannot be a topic's name",
        ),
        ("  flaps: 4", "  flaps: 010_", "thresholds.flaps: '010_' is not a whole number from 1 on"),
        (
            "  prod:\n",
            "  prod:\n    migrating: soon\n",
            "clusters.prod.migrating: 'soon' is neither true nor false",
        ),
        ("  prod:\n", "  prod:\n    migrates: true\n", "migrates"),
        (
            "  prod:\n",
            "  prod:\n    controllerRacks: {one: a}\n",
            "clusters.prod.controllerRacks: 'one' is not the id of a controller, a whole number",
        ),
        (
            "  prod:\n",
            "  prod:\n    controllerRacks: {1: [a]}\n",
            "clusters.prod.controllerRacks.1: a list is not the name of a rack",
        ),
        (
            "  prod:\n",
            "  prod:\n    kind: redpnda\n",
            "kind: 'redpnda' is no kind of cluster; did you mean redpanda?",
        ),
        ("  prod:\n", "  prod:\n    kinds: redpanda\n", "did you mean 'kind'?"),
        *(
            ("retention:\n", f"status: {{{given}}}\nretention:\n", says)
            for given, says in (
                ("lastGood: 3m", "unknown key status.lastGood; did you mean status.lastGoodPoll?"),
                ("lastGoodPoll: soon", "status.lastGoodPoll: 'soon' is not a duration"),
                ("failures: 0", "status.failures: 0 is not a whole number from 1 on"),
                ("latePercent: 101", "status.latePercent: 101 is more than 100 percent"),
                ("gaps: none", "status.gaps: 'none' is not a whole number from 0 on"),
                ("lakeBytes: 1 GB", "status.lakeBytes: '1 GB' is not a whole number from 1 on"),
            )
        ),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in GOOD
    file = config(tmp_path, GOOD.replace(old, new))
    with pytest.raises(ConfigError) as error:
        load(str(file))
    assert says in str(error.value)
    assert str(error.value).startswith(f"{file}: ")
    assert "\n" not in str(error.value)
    assert not any(secret in str(error.value) for secret in ("hunter2", "2026-11-01", "12.5"))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("/data/lake", "/data/lake"),
        ("s3a://bucket/lake", "s3a://bucket/lake"),
        ("dbfs:/lake", "dbfs:/lake"),
        ("file:/data/lake", "file:/data/lake"),
        ("~/lake", str(Path.home() / "lake")),
    ],
)
def test_a_lake_is_a_folder_or_a_uri(tmp_path: Path, given: str, meant: str) -> None:
    loaded = load(str(config(tmp_path, GOOD.replace("lake: /data/lake", f"lake: {given}"))))
    assert loaded.lake.root == meant
    assert loaded.checkpoint("q") == f"{meant}/checkpoints/q"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  bronze: 3d", "  bronze: 1d"),
        ("  flaps: 4", "  flaps: 1"),
        ("  storm: 7", "  storm: 2"),
        ("retention:\n", "history: {handOver: 2m}\nretention:\n"),
        ("retention:\n", "status: {latePercent: 100, failedPercent: 0}\nretention:\n"),
        ("retention:\n", "status: {gaps: 0, failures: 1, lakeBytes: 1}\nretention:\n"),
    ],
)
def test_the_least_and_the_most_are_taken(tmp_path: Path, old: str, new: str) -> None:
    assert old in GOOD
    load(str(config(tmp_path, GOOD.replace(old, new))))


def test_a_hand_over_has_time_for_a_log_in_which_nothing_happens(tmp_path: Path) -> None:
    text = GOOD.replace("retention:\n", "history: {handOver: 119s}\nretention:\n")
    with pytest.raises(ConfigError, match=r"history.handOver: '119s' is less than 2m"):
        load(str(config(tmp_path, text)))
