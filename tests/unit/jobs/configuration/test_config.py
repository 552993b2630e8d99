"""What a configuration says, of all its keys together."""

from datetime import timedelta
from pathlib import Path

import pytest

from jobs.configuration.config import Config, ConfigError, Thresholds, exposures, load, spool_beside
from metadata_source.options import parse, parse_cluster_log, parse_group_log
from tests.support.configurations import GOOD, config
from tests.support.for_each import for_each


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
    own, shared = (
        GOOD.replace(line, f"{line}{indent}enrich: {{groups: 1m, offsets: {more}}}\n")
        for line, indent, more in (("b2:9092\n", "    ", ""), ("15s\n", "  ", ", log_dirs: "))
    )
    found = [load(str(config(tmp_path, text))) for text in (GOOD, own, shared)]
    everyone = set(found[0].clusters)
    assert [each.asked_for("offsets") for each in found] == [set(), {"prod"}, everyone]
    assert [each.asked_for("log_dirs") for each in found] == [set(), set(), everyone]


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


@for_each("nothing", ["", "~", "''", "none"])
@for_each("of", ["kafka", "kafka.controller"])
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


def test_racks_of_controllers(tmp_path: Path) -> None:
    racks = "  prod:\n    controllerRacks: {3001: a, 3002: 0b}\n"
    read = load(str(config(tmp_path, GOOD.replace("  prod:\n", racks))))
    assert read.controller_racks == {"prod": {3001: "a", 3002: "0b"}}
    assert "controllerRacks" not in read.source_options({})["clusters"]
    assert load(str(config(tmp_path, GOOD))).controller_racks == {}


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


CONTROLLERS = "    kafka.controller.bootstrap.servers: c1:9093\n    clusterId: abc\n"


def test_the_controllers_log_is_read_of_the_clusters_that_name_controllers(tmp_path: Path) -> None:
    more = "  other: {kafka.bootstrap.servers: b3:9092}\npoll:\n"
    text = GOOD.replace("  prod:\n", f"  prod:\n{CONTROLLERS}").replace("poll:\n", more)
    read = load(str(config(tmp_path, f"{text}clusterLog:\n")))
    assert read.with_controllers == ["prod"]
    (asked,) = parse_cluster_log(read.cluster_log_options({}), "stream").clusters
    assert asked.alias == "prod"
    assert "kafka.controller" not in read.source_options({})["clusters"], "brokers are polled"
    with pytest.raises(ConfigError, match="without clusterLog nobody asks controllers"):
        load(str(config(tmp_path, text)))
    with pytest.raises(ConfigError, match="clusterLog: no cluster has kafka"):
        load(str(config(tmp_path, f"{GOOD}clusterLog:\n")))


def test_answers_have_to_have_the_id_of_the_cluster(tmp_path: Path) -> None:
    asked = GOOD.replace("  pollInterval: 15s", "  metadataVersion: 2")
    assert load(str(config(tmp_path, asked))).clusters
    with pytest.raises(ConfigError, match="metadataVersion 1: history needs the cluster's id"):
        load(str(config(tmp_path, asked.replace("Version: 2", "Version: 1"))))


def test_a_log_that_is_read_must_not_look_silent(tmp_path: Path) -> None:
    own = "  prod:\n    kafka.controller.bootstrap.servers: c1:9093\n    clusterId: abc\n"
    text = f"{GOOD.replace('  prod:' + chr(10), own)}clusterLog:\n  commitInterval: "
    for beat in ("2500ms", "150s"):
        load(str(config(tmp_path, f"{text}{beat}\n")))
    with pytest.raises(
        ConfigError,
        match=r"clusterLog.commitInterval: 0:02:31 is more than half of history.handOver",
    ):
        load(str(config(tmp_path, f"{text}151s\n")))


@pytest.mark.parametrize(("given", "upgrade"), [("auto", "auto"), ("", ""), (None, "")])
def test_run_upgrades_a_lake_if_the_configuration_says_so(
    tmp_path: Path, given: str | None, upgrade: str
) -> None:
    file = tmp_path / "config.yaml"
    lines = ["lake: /data/lake", "clusters: {a: {kafka.bootstrap.servers: 'a:1'}}"]
    lines += [] if given is None else [f"upgrade: {given}"]
    file.write_text("\n".join(lines))
    assert load(str(file)).upgrade == upgrade


def test_nothing_else_is_said_of_an_upgrade(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("lake: /l\nclusters: {a: {kafka.bootstrap.servers: 'a:1'}}\nupgrade: always\n")
    with pytest.raises(ConfigError, match="upgrade is neither auto nor left out"):
        load(str(file))
