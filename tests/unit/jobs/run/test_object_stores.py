"""A lake on S3 in Spark: S3A has what the key `storage` says, once."""

import logging

import pytest

from jobs.run.object_stores import hadoop_settings, let_reach, passed_over
from schemas.lake import Lake, LakeError
from tests.support.s3a import Session

PROVIDER = "fs.s3a.aws.credentials.provider"


def test_a_server_of_one_s_own() -> None:
    found = hadoop_settings(
        "s3a",
        {
            "aws_endpoint_url": "http://store:9000",
            "aws_allow_http": "true",
            "aws_access_key_id": "KEY",
            "aws_secret_access_key": "SECRET",
        },
    )
    assert (
        found.items()
        >= {
            "fs.s3a.endpoint": "http://store:9000",
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "KEY",
            "fs.s3a.secret.key": "SECRET",
            PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        }.items()
    )


@pytest.mark.parametrize(
    ("options", "setting", "value"),
    [
        ({"aws_region": "eu-central-1"}, "fs.s3a.endpoint.region", "eu-central-1"),
        ({"region": "eu-central-1"}, "fs.s3a.endpoint.region", "eu-central-1"),
        (
            {"endpoint": "https://s", "aws_virtual_hosted_style_request": "true"},
            "fs.s3a.path.style.access",
            "false",
        ),
        (
            {"aws_access_key_id": "K", "aws_secret_access_key": "S", "aws_session_token": "T"},
            PROVIDER,
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        ),
        (
            {"aws_skip_signature": "true"},
            PROVIDER,
            "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
        ),
        ({}, PROVIDER, "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"),
    ],
)
def test_options_of_delta_rs_are_settings_of_s3a(
    options: dict[str, str], setting: str, value: str
) -> None:
    assert hadoop_settings("s3a", options)[setting] == value


def test_amazon_s_own_hosts_are_left_to_s3a() -> None:
    found = hadoop_settings("s3a", {"aws_region": "eu-central-1"})
    assert not {"fs.s3a.endpoint", "fs.s3a.path.style.access"} & found.keys()


@pytest.mark.parametrize("scheme", ["s3", "s3n"])
def test_hadoop_has_one_file_system_for_s3(scheme: str) -> None:
    found = hadoop_settings(scheme, {})
    assert found[f"fs.{scheme}.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem"
    assert found[f"fs.AbstractFileSystem.{scheme}.impl"] == "org.apache.hadoop.fs.s3a.S3A"


def test_what_spark_is_not_given_is_named() -> None:
    given = {"aws_region": "x", "timeout": "30s", "aws_role_arn": "a", "aws_profile": "b"}
    assert passed_over(given) == ["aws_profile", "aws_role_arn"]


def test_secrets_are_resolved_and_given_to_hadoop_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KAFKA_STORE_SECRET", "hidden")
    caplog.set_level(logging.DEBUG)
    storage = {
        "aws_access_key_id": "KEY",
        "aws_secret_access_key": "env:KAFKA_STORE_SECRET",
        "aws_role_arn": "arn",
    }
    session = Session()
    let_reach(session, Lake(root="s3a://bucket/lake", storage=tuple(storage.items())))
    assert session.hadoop["fs.s3a.secret.key"] == "hidden"
    assert not session.conf
    assert "hidden" not in caplog.text
    assert "aws_role_arn" in caplog.text


def test_settings_that_the_session_has_count_more() -> None:
    session = Session(conf={"spark.hadoop.fs.s3a.endpoint.region": "theirs"})
    let_reach(session, Lake(root="s3a://b/l", storage=(("aws_region", "ours"),)))
    assert "fs.s3a.endpoint.region" not in session.hadoop


def test_a_reference_that_leads_nowhere_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_STORE_SECRET", raising=False)
    lake = Lake(root="s3a://b/l", storage=(("aws_secret_access_key", "env:KAFKA_STORE_SECRET"),))
    with pytest.raises(LakeError, match=r"^s3a://b/l: .*storage\.aws_secret_access_key"):
        let_reach(Session(), lake)


@pytest.mark.parametrize("root", ["/data/lake", "abfss://a@b/lake"])
def test_other_lakes_get_nothing(root: str) -> None:
    session = Session()
    let_reach(session, Lake(root=root))
    assert not session.hadoop
