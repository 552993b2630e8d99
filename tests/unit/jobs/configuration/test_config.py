"""The jobs' configuration: what is read from it, and one clear line for each mistake."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.configuration.config import Config, ConfigError, Thresholds, exposures, load, spool_beside
from jobs.configuration.limits import Limits
from jobs.run.cli import one_line, run_job
from metadata_source.options import parse, parse_cluster_log, parse_group_log
from tests.support.repository import ROOT

GOOD = """
lake: /data/lake
clusters:
  prod:
    kafka.bootstrap.servers: b1:9092,b2:9092
    kafka.sasl.password: env:PASSWORD
    kafka.sasl.username: monitor
    kafka.sasl.mechanism: SCRAM-SHA-512
    kafka.security.protocol: SASL_SSL
poll:
  pollInterval: 15s
  topics: [orders, payments]
retention:
  bronze: 3d
  gold: 400 days
thresholds:
  flaps: 4
  flapWindow: 1h
  storm: 7
  crashLoopWindow: 30m
"""


def config(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return file


def test_a_good_file(tmp_path: Path) -> None:
    read = load(str(config(tmp_path, GOOD)))
    assert read.lake.root == "/data/lake"
    assert read.checkpoint("poll_metadata") == "/data/lake/checkpoints/poll_metadata"
    assert read.bronze_retention == timedelta(days=3)
    assert (read.silver_retention, read.gold_retention) == (None, timedelta(days=400)), (
        "kept for ever unless told"
    )
    given = {
        "flaps": 4,
        "flap_window": timedelta(hours=1),
        "storm": 7,
        "crash_loop_window": timedelta(minutes=30),
    }
    assert read.thresholds == Thresholds(**given)
    options = read.source_options({"prod": "abc", "gone": "xyz"})
    assert options["topics"] == "orders,payments"
    assert '"clusterId": "abc"' in options["clusters"]
    assert "gone" not in options["clusters"]


def test_lag_is_kept_as_gold_unless_it_has_an_age_of_its_own(tmp_path: Path) -> None:
    days = timedelta(days=400)
    assert load(str(config(tmp_path, GOOD))).kept == {
        "silver": None,
        "gold": days,
        "group_lag": days,
    }
    of_lag = load(str(config(tmp_path, GOOD.replace("  gold: 400 days", "  groupLag: 90d"))))
    assert of_lag.kept == {"silver": None, "gold": None, "group_lag": timedelta(days=90)}


def test_silver_and_gold_have_their_ages(tmp_path: Path) -> None:
    read = load(str(config(tmp_path, GOOD.replace("  gold: 400 days", "  silver: 30d"))))
    assert (read.silver_retention, read.gold_retention) == (timedelta(days=30), None)
    assert read.own_retention == {}


def test_which_clusters_are_asked_for_offsets(tmp_path: Path) -> None:
    asked = "    enrich: {groups: 1m, offsets: }\n"
    own, shared = (
        GOOD.replace(line, line + asked[indent:])
        for line, indent in (("b2:9092\n", 0), ("15s\n", 2))
    )
    found = [load(str(config(tmp_path, text))) for text in (GOOD, own, shared)]
    everyone = set(found[0].clusters)
    assert [each.asked_for_offsets for each in found] == [set(), {"prod"}, everyone]


def test_a_relative_path_lies_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    text = GOOD.replace(
        "lake: /data/lake", "lake: data/lake\ncheckpoints: ../checkpoints\nvalidation: {docs: docs}"
    )
    read = load(str(config(tmp_path, text)))
    assert read.lake.root == f"{tmp_path}/data/lake"
    assert (read.checkpoints, read.docs) == (f"{tmp_path.parent}/checkpoints", f"{tmp_path}/docs")
    link = tmp_path / "elsewhere"
    link.mkdir()
    (link / "config.yaml").symlink_to(tmp_path / "config.yaml")
    assert load(str(link / "config.yaml")).lake.root == f"{link}/data/lake", (
        "a link is a file of its own"
    )


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


@pytest.mark.parametrize(
    ("given", "spool"),
    [
        ("lake: /data/lake", "/data/lake/checkpoints/spool"),
        ("lake: s3a://data/lake\ncheckpoints: kept", "BESIDE/kept/spool"),
        ("lake: s3a://data/lake", "/home/me/.local/state/kafka-metadata-history/ca66d2aa5261ef26"),
        (
            "lake: {catalog: main}\ncheckpoints: s3a://kept",
            "/home/me/.local/state/kafka-metadata-history/674d5cb79e804f29",
        ),
        ("lake: /data/lake\nspool: ../spool", "BESIDE/../spool"),
        ("lake: /data/lake\nspool: ~/spool", "/home/me/spool"),
        ("lake: /data/lake\nspool: ", "/data/lake/checkpoints/spool"),
    ],
)
def test_polls_wait_in_a_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, spool: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    read = load(str(config(tmp_path, GOOD.replace("lake: /data/lake", given))))
    assert read.spool == str(Path(spool.replace("BESIDE", str(tmp_path))).resolve())
    assert Config(read.lake, read.checkpoints, {}).spool == spool_beside(read.checkpoints)


def test_the_state_of_a_user_may_lie_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert spool_beside("s3a://a").startswith("/state/kafka-metadata-history/")
    assert spool_beside("s3a://a") != spool_beside("s3a://b")


@pytest.mark.parametrize(
    "text", ["03303560", "12_34", "1e3", "0x1f", "1:30", "2026-11-01", "12.5", "no", "True"]
)
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


@pytest.mark.parametrize("nothing", ["", "~", "''", "none"])
@pytest.mark.parametrize("of", ["kafka", "kafka.controller"])
def test_host_names_are_not_checked_where_the_algorithm_is_nothing(
    tmp_path: Path, nothing: str, of: str
) -> None:
    own = f"    {of}.ssl.endpoint.identification.algorithm: {nothing}\n"
    own += "    kafka.controller.bootstrap.servers: c1:9093\n    clusterId: abc\n"
    read = load(
        str(config(tmp_path, f"{GOOD.replace('  prod:', f'  prod:{chr(10)}{own}')}clusterLog:\n"))
    )
    found = (
        parse(read.source_options({})).clusters,
        parse_cluster_log(read.cluster_log_options({}), "stream").clusters,
    )
    assert [clusters[0].ssl_check_hostname for clusters in found] == [of != "kafka", False]


def test_a_log_that_is_read_must_not_look_silent(tmp_path: Path) -> None:
    own = "  prod:\n    kafka.controller.bootstrap.servers: c1:9093\n    clusterId: abc\n"
    text = f"{GOOD.replace('  prod:' + chr(10), own)}clusterLog:\n  commitInterval: "
    load(str(config(tmp_path, f"{text}2500ms\n")))
    with pytest.raises(
        ConfigError,
        match=r"clusterLog.commitInterval: 0:02:31 is more than half of history.handOver",
    ):
        load(str(config(tmp_path, f"{text}151s\n")))


def test_thresholds_of_the_status(tmp_path: Path) -> None:
    assert load(str(config(tmp_path, GOOD))).limits == Limits()
    given = "status:\n  lastGoodPoll: 7m\n  failedPercent: 0\n  lakeBytes: 5\n  window: 2 days\n"
    read = load(str(config(tmp_path, GOOD + given)))
    changed = Limits(timedelta(days=2), timedelta(minutes=7), failed_percent=0, lake_bytes=5)
    assert (read.limits, read.poll_intervals) == (changed, {"prod": timedelta(seconds=15)})


def test_the_example_shows_the_defaults_of_the_status() -> None:
    example = load(str(ROOT / "conf" / "example.yaml"))
    assert example.limits == Limits(
        last_good_poll=2 * min(example.poll_intervals.values()) + timedelta(minutes=2)
    )


@pytest.mark.parametrize(
    ("said", "migrating"), [("true", {"prod"}), ("'true'", {"prod"}), ("false", set())]
)
def test_a_cluster_that_migrates_from_zookeeper(
    tmp_path: Path, said: str, migrating: set[str]
) -> None:
    read = load(
        str(config(tmp_path, GOOD.replace("  prod:\n", f"  prod:\n    migrating: {said}\n")))
    )
    assert read.migrating == migrating
    assert "migrating" not in read.source_options({})["clusters"]


def test_the_group_log_is_read_of_the_same_clusters_where_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="groupLog is missing"):
        load(str(config(tmp_path, GOOD))).group_log_options({})
    text = GOOD.replace("  prod:\n", "  prod:\n    maxResponseBytes: 9\n").replace(
        "poll:\n",
        (
            "groupLog:\n  startingOffsets: latest\npoll:\n  kafka.client.id: history\n  "
            "clientHashKey: env:KEY\n"
        ),
    )
    options = load(str(config(tmp_path, text))).group_log_options({"prod": "abc"})
    (cluster,) = parse_group_log(options, "stream").clusters
    assert (cluster.alias, cluster.cluster_id, cluster.client_id, cluster.sasl_username) == (
        "prod",
        "abc",
        "history",
        "monitor",
    )
    assert parse_group_log(options).client_hash_key == "env:KEY"
    assert (options["startingOffsets"], "pollInterval" in options, "topics" in options) == (
        "latest",
        False,
        False,
    )
    for wrong, said in (
        ("clusterId: x", "it is of one cluster"),
        ("startingOffsets: soon", "neither earliest"),
        ("clientHashKey: env:KEY", "set it under poll"),
    ):
        text = f"{GOOD}groupLog:\n  {wrong}\n"
        with pytest.raises(ConfigError, match=said):
            load(str(config(tmp_path, text)))
    assert load(str(config(tmp_path, f"{GOOD}groupLog:\n"))).group_log == {}


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


def test_the_kind_of_a_cluster_is_declared(tmp_path: Path) -> None:
    assert load(str(config(tmp_path, GOOD))).kinds == {"prod": "kafka"}
    declared = load(
        str(config(tmp_path, GOOD.replace("  prod:\n", "  prod:\n    Kind: Redpanda\n")))
    )
    assert declared.kinds == {"prod": "redpanda"}
    assert parse(declared.source_options({}), "stream").clusters[0].kind == "redpanda"
    for_all = load(
        str(config(tmp_path, GOOD.replace("poll:\n", "groupLog:\npoll:\n  kind: automq\n")))
    )
    assert for_all.kinds == {"prod": "automq"}
    assert parse_group_log(for_all.group_log_options({}), "stream").clusters[0].kind == "automq"


def test_credentials_that_nothing_hides_are_said_of_each_cluster(tmp_path: Path) -> None:
    assert exposures(load(str(config(tmp_path, GOOD)))) == []
    (line,) = exposures(load(str(config(tmp_path, GOOD.replace("SASL_SSL", "SASL_PLAINTEXT")))))
    assert line == (
        "cluster prod: a hash from which the password can be guessed crosses the network "
        "unencrypted: set kafka.security.protocol to SASL_SSL"
    )


def test_an_id_that_is_configured_stands(tmp_path: Path) -> None:
    text = GOOD.replace("  prod:\n", "  prod:\n    clusterId: configured\n")
    assert (
        '"clusterId": "configured"'
        in load(str(config(tmp_path, text))).source_options({"prod": "known"})["clusters"]
    )


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
                f"retention.{key}: {shown} is not a number of days: write it as 7d",
            )
            for key in ("bronze", "silver", "groupLag")
            for age, shown in (
                ("12M", "'12M'"),
                ("12m", "'12m'"),
                ("1s", "'1s'"),
                ("48h", "'48h'"),
                ("1y", "'1y'"),
                ("52w", "'52w'"),
                ("6 months", "'6 months'"),
                ("7", "'7'"),
                ("1.5d", "'1.5d'"),
                ("-1d", "'-1d'"),
            )
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
        (
            "  pollInterval: 15s",
            "  pollInterval: 1.5",
            "pollInterval: '1.5' is not a duration",
        ),
        (
            "  pollInterval: 15s",
            "  clusters: x",
            "poll.clusters: set it under clusters: it is of one cluster",
        ),
        (
            "  pollInterval: 15s",
            "  metadataVersion: 1",
            "metadataVersion 1: history needs the cluster's id",
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


def test_an_error_of_an_option_has_no_code_of_the_data_source(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "lake: lake\nclusters: {a: {kafka.bootstrap.servers: 'b:1', pollIntervall: 1s}}\n"
    )
    with pytest.raises(ConfigError, match="unknown option 'pollIntervall'") as error:
        load(str(file))
    assert str(error.value).startswith(f"{file}: clusters['a']: ")


def test_a_file_that_is_not_there_is_said_with_where_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    todo = "`kafka-metadata-history init` writes one, --config names another"
    with pytest.raises(ConfigError) as error:
        load("history.yaml")
    assert str(error.value) == f"history.yaml: no such file in {tmp_path}; {todo}"


def test_no_file_and_no_yaml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(str(tmp_path / "nothing.yaml"))
    with pytest.raises(ConfigError, match="not YAML"):
        load(str(config(tmp_path, "lake: [")))
    with pytest.raises(ConfigError, match="not a mapping"):
        load(str(config(tmp_path, "- lake")))


def test_a_machine_that_is_too_busy_to_start_python_is_named_as_the_cause() -> None:
    said = one_line(
        RuntimeError("Python worker failed to connect back.\n  at org.apache.spark.api.python")
    )
    assert said == (
        "Python worker failed to connect back. The machine was too busy to start Python in "
        "Spark's time; run it again"
    )


def test_an_error_that_crossed_from_a_worker_is_one_line() -> None:
    text = (
        "[STREAM_FAILED] Query terminated:\n  PythonException: \n"
        "  metadata_source.errors.PollError: [KAFKA_METADATA_POLL] unreachable: b1:9092\n  at "
        "org.apache"
    )
    assert one_line(RuntimeError(text)) == "[KAFKA_METADATA_POLL] unreachable: b1:9092"
    assert one_line(RuntimeError("first\nsecond")) == "first"


class Java(SimpleNamespace):
    """An error of Java's, and what it came of."""

    def toString(self) -> str:  # noqa: N802 - as Java has it
        return self.text

    def getCause(self) -> object:  # noqa: N802
        return self.cause


@pytest.mark.parametrize(
    ("reason", "bottom", "said"),
    [
        (
            " Writing failed",
            "java.io.IOException: No space left",
            "Writing failed (java.io.IOException: No space left)",
        ),
        (" Write failed", "org.apache.spark.PythonException: Traceback", "Write failed"),
        ("", "java.io.EOFException", " (java.io.EOFException)"),
    ],
)
def test_what_an_error_of_java_came_of_is_in_its_line(reason: str, bottom: str, said: str) -> None:
    failed = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception:"
    error = RuntimeError(f"{failed}{reason} SQLSTATE: XXKST")
    error._origin = Java(text="above", cause=Java(text=f"{bottom}\n\tat of.Java", cause=None))  # type: ignore[attr-defined]
    assert one_line(error) == f"a stream ended: {said}"


def test_a_job_ends_with_status_1_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path, GOOD.replace("lake:", "lakes:"))

    def job(*_: object) -> None:
        raise AssertionError("nothing may start with such a file")

    assert run_job("pipeline", "Poll.", job, ["--config", str(file)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"pipeline: {file}: unknown key lakes; did you mean lake?"
