"""Which files and variables a reference may name: those that the machine's operator allows,
wherever links lead.
"""

import os
from pathlib import Path

import pytest

from metadata_source import references
from metadata_source.errors import OptionsError
from metadata_source.references import ENDPOINTS, FOLDERS, PREFIXES, check_endpoint, resolve_secret
from tests.support.documents import ROOT, document

NAME = "kafka.sasl.password"


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDERS, raising=False)
    monkeypatch.delenv(PREFIXES, raising=False)
    monkeypatch.delenv(ENDPOINTS, raising=False)


def refused(reference: str) -> str:
    with pytest.raises(OptionsError) as caught:
        resolve_secret(NAME, reference)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    return caught.value.problem


def test_variables_begin_with_kafka_unless_the_operator_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("KAFKA_PASSWORD", "AWS_SECRET_ACCESS_KEY", "MY_KAFKA_PASSWORD"):
        monkeypatch.setenv(name, "s3cret")
    assert resolve_secret(NAME, "env:KAFKA_PASSWORD") == "s3cret"
    assert refused("env:AWS_SECRET_ACCESS_KEY") == (
        f"{NAME}: the environment variable AWS_SECRET_ACCESS_KEY may not be read, its name does "
        "not begin with KAFKA_: rename it, or set KAFKA_METADATA_SECRET_VARIABLES where the "
        "connection is made to what names may begin with"
    )
    monkeypatch.setenv(PREFIXES, "MY_KAFKA_,HIS_")
    assert resolve_secret(NAME, "env:MY_KAFKA_PASSWORD") == "s3cret"
    assert "does not begin with MY_KAFKA_ or HIS_:" in refused("env:KAFKA_PASSWORD")
    monkeypatch.setenv(PREFIXES, "")
    refused("env:KAFKA_PASSWORD")
    monkeypatch.setenv(PREFIXES, "KAFKA_")
    monkeypatch.delenv("KAFKA_PASSWORD")
    assert refused("env:KAFKA_PASSWORD").endswith(
        "environment variable KAFKA_PASSWORD is not set where the connection is made"
    )
    monkeypatch.setenv(PREFIXES, "*")
    assert resolve_secret(NAME, "env:AWS_SECRET_ACCESS_KEY") == "s3cret"


def test_whether_a_variable_that_may_not_be_read_is_set_is_not_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = refused("env:PASSWORD")
    monkeypatch.setenv("PASSWORD", "s3cret")
    assert refused("env:PASSWORD") == said


def test_the_default_folders_are_those_of_the_documents() -> None:
    assert f"`{references.DEFAULT_FOLDERS}`" in document("security.md")
    documented = document("security.md") + (ROOT / "conf" / "example.yaml").read_text()
    assert all(f"file:{folder}/" in documented for folder in references.DEFAULT_FOLDERS.split(":"))
    assert refused("file:/etc/passwd") == (
        f"{NAME}: /etc/passwd may not be read, it is not in /etc/kafka or "
        "/etc/kafka-metadata-history: move it, or set KAFKA_METADATA_SECRET_FILES where the "
        "connection is made to the folders of secrets"
    )
    assert "No such file" in refused("file:/etc/kafka/none-of-these")


def test_files_are_in_a_folder_that_is_allowed_however_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, other, elsewhere = (
        tmp_path / name for name in ("allowed", "allowed-not", "elsewhere")
    )
    for folder in (allowed, other, elsewhere):
        folder.mkdir()
        (folder / "password").write_text("s3cret\n")
    monkeypatch.setenv(FOLDERS, f"{tmp_path}/nothing:{allowed}")
    assert resolve_secret(NAME, f"file:{allowed}/password") == "s3cret"
    # As Kubernetes mounts secrets.
    (allowed / "..data").symlink_to(allowed)
    (allowed / "linked").symlink_to("..data/password")
    assert resolve_secret(NAME, f"file:{allowed}/linked") == "s3cret"
    (allowed / "out").symlink_to(other / "password")
    (allowed / "round").symlink_to(allowed / "round")
    for path in (
        f"{other}/password",
        f"{allowed}/../elsewhere/password",
        f"{allowed}/out",
        "/proc/self/environ",
    ):
        assert "may not be read, it is not in" in refused(f"file:{path}")
    refused(f"file:{allowed}/round")
    (tmp_path / "link-to-allowed").symlink_to(allowed)
    monkeypatch.setenv(FOLDERS, f"{tmp_path}/link-to-allowed")
    assert resolve_secret(NAME, f"file:{allowed}/password") == "s3cret"


def test_a_secret_is_in_a_regular_file_and_begins_after_a_byte_order_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDERS, str(tmp_path))
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbfs3cret\r\n")
    assert resolve_secret(NAME, f"file:{tmp_path}/marked") == "s3cret"
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf\n")
    assert refused(f"file:{tmp_path}/marked").endswith("/marked: empty")
    (tmp_path / "other").write_bytes("s3cret".encode("utf-16"))
    assert refused(f"file:{tmp_path}/other") == f"{NAME}: {tmp_path}/other: not UTF-8 text"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        assert (
            refused(f"file:{tmp_path}/{name}") == f"{NAME}: {tmp_path}/{name}: not a regular file"
        )


def test_a_clients_secret_goes_to_endpoints_with_tls_or_those_that_the_operator_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    option, secure, plain = (
        "kafka.sasl.oauthbearer.token.endpoint.url",
        "https://idp/token",
        "http://169.254.169.254/",
    )

    def check(url: str) -> str:
        with pytest.raises(OptionsError) as caught:
            check_endpoint(option, url)
        return caught.value.problem

    check_endpoint(option, secure)
    check_endpoint(option, "HTTPS://other/token")
    assert check(plain) == (
        f"{option}: {plain} would get the client's secret unencrypted: give an https URL, or set "
        "KAFKA_METADATA_TOKEN_ENDPOINTS where the connection is made to the URLs that may be asked"
    )
    monkeypatch.setenv(ENDPOINTS, f"{plain}, {secure}")
    check_endpoint(option, plain)
    check_endpoint(option, secure)
    for url in ("https://other/token", f"{secure}/more", "https://idp"):
        said = (
            f"{option}: {url} is not among the URLs of KAFKA_METADATA_TOKEN_ENDPOINTS where the "
            "connection is made"
        )
        assert check(url) == said
    monkeypatch.setenv(ENDPOINTS, "")
    assert "is not among the URLs" in check(secure)


def test_whether_a_file_that_may_not_be_read_is_there_is_not_said(tmp_path: Path) -> None:
    said = refused(f"file:{tmp_path}/password")
    (tmp_path / "password").write_text("s3cret")
    assert refused(f"file:{tmp_path}/password") == said
