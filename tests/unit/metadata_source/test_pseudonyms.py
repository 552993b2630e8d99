"""Client ids and hosts that must not be stored: gone from every column, and still told apart."""

import hmac
from base64 import urlsafe_b64encode
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.columns.group_log import RECORDS
from metadata_source.errors import OptionsError
from metadata_source.protocol.group_records import decode_records
from metadata_source.pseudonyms import Pseudonyms
from tests.support import group_messages
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.group_messages import key_bytes, value_bytes

KEY = "a key"
PSEUDONYMS = Pseudonyms(KEY)
UUID = "0f0ef8c2-4c1f-4b52-9a0e-0d5a3f1f7a11"


def h(text: str) -> str:
    """A second writing of the pseudonym."""
    return (
        "h:"
        + urlsafe_b64encode(hmac.new(KEY.encode(), text.encode(), "sha256").digest())[:16].decode()
    )


@pytest.mark.parametrize(
    ("member_id", "stored"),
    [
        (f"billing@host7-{UUID}", f"{h('billing@host7')}-{UUID}"),
        (f"-{UUID}", f"{h('')}-{UUID}"),
        (f"two\nlines-{UUID}", f"{h('two' + chr(10) + 'lines')}-{UUID}"),
        (UUID, UUID),
        ("UC5mcAQiRJyRiu8HWsZ58g", "UC5mcAQiRJyRiu8HWsZ58g"),  # made by librdkafka, KIP-848
        ("billing-on-host-seven7", h("billing-on-host-seven7")),  # as long, and no UUID
        ("host7:1234", h("host7:1234")),
        ("", ""),
    ],
)
def test_member_ids_keep_their_uuid_only(member_id, stored):
    assert PSEUDONYMS.of_member_id(member_id) == stored


def test_a_client_and_the_members_that_it_was_have_one_pseudonym():
    assert PSEUDONYMS.of_member_id(f"app-{UUID}") == f"{PSEUDONYMS.of('app')}-{UUID}"
    assert PSEUDONYMS.of("app") != Pseudonyms("another key").of("app")


def test_the_key_is_a_reference(monkeypatch):
    monkeypatch.setenv("CLIENT_HASH_KEY", KEY)
    assert Pseudonyms.of_reference("env:CLIENT_HASH_KEY").of("app") == h("app")
    with pytest.raises(
        OptionsError, match="clientHashKey: the environment variable NO_SUCH_KEY is not set"
    ):
        Pseudonyms.of_reference("env:NO_SUCH_KEY")


LEFT_OUT = {"user_data", "subscription_bytes", "assignment_bytes", "metadata_bytes"}
CLIENT = {"client_id", "client_host", "host"}


def plainly(value: Any, name: str = "") -> Any:
    """A second and plainer writing of what is replaced in a decoded row, by names alone."""
    if isinstance(value, dict):
        return {
            key: [{"key": tag["key"], "value": h(tag["value"])} for tag in each]
            if key == "client_tags" and each is not None
            else plainly(each, key)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [plainly(each, name) for each in value]
    if name in LEFT_OUT or value is None:
        return None
    if name in CLIENT:
        return h(value)
    if name in {"member_id", "leader"}:
        return PSEUDONYMS.of_member_id(value)
    return value


@for_each("number", sorted(group_messages.COLUMN_OF))
def test_every_record_type_is_replaced_as_the_plain_writing_does(number):
    version = max(version for each, version in group_messages.RECORDS if each == number)

    @settings(max_examples=examples(5))
    @given(st.lists(group_messages.records(number, version), max_size=3))
    def check(records):
        records = [*records, *records]
        keys = [key_bytes(number, key) for key, _ in records]
        values = [value_bytes(number, version, value) for _, value in records]
        decoded = decode_records(keys, [*values[:-1], None] if values else [])
        replaced = PSEUDONYMS.of_records(decoded)
        assert replaced.schema == RECORDS
        replaced.validate(full=True)
        assert replaced.to_pylist() == [plainly(row) for row in decoded.to_pylist()]

    check()


def test_slices_are_replaced_like_the_whole():
    member = {"member_id": f"app-{UUID}", "client_id": "app", "client_host": "/10.0.0.7"}
    groups = [[{"members": [member]}], None, [], [{"members": None}, {"members": [member, member]}]]
    column = pa.array(
        groups,
        pa.list_(pa.struct({"members": pa.list_(pa.struct(dict.fromkeys(member, pa.string())))})),
    )
    whole = PSEUDONYMS.of_column("groups", column)
    for start in range(len(groups)):
        assert (
            PSEUDONYMS.of_column("groups", column[start:]).to_pylist() == whole.to_pylist()[start:]
        )
    assert whole[3][1].as_py()["members"][0] == {
        "member_id": f"{h('app')}-{UUID}",
        "client_id": h("app"),
        "client_host": h("/10.0.0.7"),
    }


def test_what_was_not_decoded_leaves_no_bytes_and_says_so():
    key, value = (
        key_bytes(5, {"group_id": "g", "member_id": f"host7-{UUID}"}),
        b"\0\0host7 and more of host7",
    )
    rows = PSEUDONYMS.of_records(
        decode_records([key, b"\0\x63host7", key], [value, b"\0\1host7", None])
    ).to_pylist()
    assert [row["key"] or row["value"] for row in rows] == [None] * 3
    assert [row["member_id"] for row in rows] == [
        f"{h('host7')}-{UUID}",
        None,
        f"{h('host7')}-{UUID}",
    ]
    assert all(
        row["error"].endswith("; raw bytes are left out (clientHashKey)") for row in rows[:2]
    )
    assert rows[1]["error"].startswith("unknown record type 99")
    assert rows[2]["error"] is None
    shown = str(rows)
    assert "host7" not in shown
    assert b"host7".hex(" ") not in shown
