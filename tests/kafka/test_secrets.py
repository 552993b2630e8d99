"""No secret is in anything that is kept, printed or logged."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer

from tests.support.commands import run_in_new_shell
from tests.support.marks import traces
from tests.support.pipelines import command_of, environment
from tests.support.repository import ROOT
from tests.support.secured import CLIENT_SECRET, KEY_PASSWORD, PASSWORD, USER, WRONG, Secured
from tests.support.secured_clients import LOG, SECRETS, Given, bearer, jaas, mutual, password
from tests.support.waiting import eventually

HASH_KEY = "hashMk4Ns7Fd2-client-hash-key"
CLIENT_ID = "clidMk6Yb4Gd3"
REFERENCE = "refrMk2Aa3Bb4"
"""The name of a variable that holds a secret: it may be seen, where the secret may not."""
SEEN = "seenMk1Zz9Yy8"
HOSTILE = (
    f"env:ALICE_PASSWORD {SEEN}",  # a name is no reference
    f"${{env:HASH_KEY}} {{batch}} %(x)s $x_1$ =1+1 <script>alert(1)</script>\x1b[31m {SEEN}",
)
"""Groups."""


@contextlib.contextmanager
def members(servers: str) -> Iterator[None]:
    """A group of each protocol, with a member that has something."""
    with contextlib.ExitStack() as stack:
        for group, protocol in zip(HOSTILE, ("classic", "consumer"), strict=True):
            own = {
                "bootstrap.servers": servers,
                "group.id": group,
                "client.id": CLIENT_ID,
                "group.protocol": protocol,
            }
            consumer = stack.enter_context(closing(Consumer(own)))
            consumer.subscribe([LOG])
            eventually(lambda of=consumer: of.poll(0.2) or of.assignment(), f"what {group} has")
        yield


def clusters(secured: Secured, given: Path) -> dict[str, Given]:
    """Aliases for the one cluster: the secrets of each kind as they should be, and wrong ones.
    Files go to `given`.
    """
    (given / "secret").write_text(CLIENT_SECRET)
    (given / "wrong").write_text(WRONG)
    plain, module = password(secured, "PLAIN"), "plain.PlainLoginModule"
    return {
        "scram": password(secured, "SCRAM-SHA-512", "SASL_SSL", sasl_password=f"env:{REFERENCE}"),
        "bearer": bearer(
            secured, "SASL_SSL", sasl_oauthbearer_client_secret=f"file:{given}/secret"
        ),
        "jaas": jaas(plain, given / "jaas", module, username=USER, password=PASSWORD),
        "mutual": mutual(secured),
        "wrong-password": password(secured, "SCRAM-SHA-512", "SASL_SSL", sasl_password="env:WRONG"),  # noqa: S106
        "wrong-jaas": jaas(plain, given / "wrong-jaas", module, username=USER, password=WRONG),
        "wrong-secret": bearer(secured, sasl_oauthbearer_client_secret=f"file:{given}/wrong"),
        "no-endpoint": bearer(
            secured,
            sasl_oauthbearer_token_endpoint_url="https://localhost:1/token",  # noqa: S106
        ),
        "wrong-key": mutual(secured, ssl_key_password="env:WRONG"),  # noqa: S106
    }


VARIABLES = SECRETS | {REFERENCE: PASSWORD, "HASH_KEY": HASH_KEY}


@pytest.fixture(scope="module")
def kept(secured_cluster: Secured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that comes of running everything: lake, checkpoints, data docs, Spark's
    event log and pages, and what is printed and logged.
    """
    given, made = tmp_path_factory.mktemp("given"), tmp_path_factory.mktemp("made")
    for folder in ("events", "scratch"):
        (made / folder).mkdir()
    reached = clusters(secured_cluster, given)
    hidden = {"clientHashKey": "env:HASH_KEY"}
    content = {
        "lake": str(made / "lake"),
        "clusters": reached,
        "poll": {
            "pollInterval": "10s",
            "enrich": "configs, reassignments, elr, quorum, groups",
            **hidden,
        },
        "groupLog": {"requestTimeout": "10s"},
        "validation": {"docs": str(made / "docs")},
    }
    (made / "config.yaml").write_text(yaml.safe_dump(content))
    formats = ("kafka_metadata", "kafka_group_log")
    (made / "reads.json").write_text(
        json.dumps([(each, it | hidden) for each in formats for it in reached.values()])
    )
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(made / "events"),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(made / "scratch"),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.log.level": "INFO",
        # As executors of a cluster are given secrets, beside a command line that shows them.
        "spark.executorEnv.HASH_KEY": HASH_KEY,
        "spark.executorEnv.ALICE_PASSWORD": PASSWORD,
    }
    own = {"TMPDIR": str(made / "scratch"), "SPARK_PUBLIC_DNS": "localhost"}
    with (
        members(secured_cluster.cluster.bootstrap_servers),
        (made / "out").open("w") as out,
        (made / "err").open("w") as err,
    ):
        done = subprocess.run(
            command_of("tests/support/every_job.py", str(made), settings=settings),
            cwd=ROOT,
            env=environment() | VARIABLES | own,
            stdout=out,
            stderr=err,
            check=False,
        )
    assert done.returncode == 0, (made / "err").read_text()[-3000:]
    return made


def leaks(secured: Secured, folder: Path) -> list[str]:
    """Where a secret is, or a token, or a client's name, which is to be hidden too."""
    marks = [
        each[:13] for each in (PASSWORD, CLIENT_SECRET, KEY_PASSWORD, WRONG, HASH_KEY, CLIENT_ID)
    ]
    assert all("Mk" in mark for mark in marks)
    assert secured.tokens.given
    # Of a token its signature: nobody has any use for the rest.
    signatures = [
        re.sub("[^A-Za-z0-9]", " ", token.split(".")[2]).split() for token in secured.tokens.given
    ]
    return traces(folder, [*marks, *(max(parts, key=len) for parts in signatures)])


def parts_with(folder: Path, mark: str) -> set[str]:
    """What of the folder has a mark."""
    return {found.split(":")[0].split("/")[0] for found in traces(folder, [mark])}


@pytest.mark.soak
def test_no_secret_is_in_anything_that_is_kept_or_told(secured, kept):
    assert leaks(secured, kept) == []


@pytest.mark.soak
def test_everything_ran_that_might_have_told_a_secret(kept):
    """With as many clusters that cannot be reached, and names that mean something elsewhere."""
    statuses = json.loads((kept / "statuses.json").read_text())
    assert statuses == {"pipeline": 3, "validate": 3, "timeline": 0, "polls": 0, "members": 0}
    assert parts_with(kept, REFERENCE) >= {"config.yaml", "lake"}
    assert parts_with(kept, SEEN) >= {"lake", "out"}
    out, err = (kept / "out").read_text(), (kept / "err").read_text()
    # A log that cannot be reached is an error when its read is planned.
    assert (
        out.count("== Physical Plan ==") >= len(json.loads((kept / "reads.json").read_text())) / 2
    )
    for kind in ("authentication", "unreachable", "options"):
        assert f"[KAFKA_METADATA_POLL] {kind}: " in err
    found = [
        json.loads(line)
        for line in out.splitlines()
        if line.startswith("{") and '"client_host"' in line
    ]
    clients = {(row["client_id"][:2], row["client_host"][:2]) for row in found}
    assert clients == {("h:", "h:")}
    (events,) = (kept / "events").iterdir()
    assert b"spark.executorEnv.HASH_KEY" in b"".join(each.read_bytes() for each in _files(events))
    assert (
        "spark.executorEnv.HASH_KEY" in (kept / "ui" / "environment.json").read_text()
    )  # which the page shows


@pytest.mark.soak
def test_hostile_names_stay_names(kept):
    assert "\x1b" not in (kept / "out").read_text()
    pages = [*(kept / "docs").rglob("*.html"), *(kept / "ui").glob("*.html")]
    assert len(pages) > 6
    assert [page for page in pages if "<script>alert(1)" in page.read_text()] == []


@pytest.mark.soak
def test_no_secret_is_in_a_notebooks_page(secured, kept):
    folder = kept / "pages"
    printed = run_in_new_shell(
        (
            f"python -m notebooks incident rebalance_history --config {kept}/config.yaml --to "
            f"{folder} 2>&1"
        ),
        **VARIABLES,
    )
    (folder / "printed").write_text(printed)
    assert leaks(secured, kept) == []
    assert SEEN in (folder / "rebalance_history.html").read_text()
    assert not [page for page in folder.glob("*.html") if "<script>alert(1)" in page.read_text()]


def _files(path: Path) -> list[Path]:
    """The files of an event log, which is one or a folder of them."""
    return (
        [path] if path.is_file() else [each for each in sorted(path.rglob("*")) if each.is_file()]
    )
