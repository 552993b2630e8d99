"""What `check` says of transactions: who may see those that are open, and those that hang."""

import pytest

from kafka_metadata_history import check
from metadata_source.options import parse
from metadata_source.probes import HANGING, Permission

READ = Permission(HANGING, "READ on the topics", "missing: READ", "--operation Read --topic '*'")


@pytest.mark.parametrize(
    ("answer", "missing"), [("allowed", []), ("missing: DESCRIBE", ["open transactions"])]
)
def test_those_that_hang_are_a_part_that_may_be_left_out(answer: str, missing: list[str]) -> None:
    options = parse({"kafka.bootstrap.servers": "one:9092", "enrich": "transactions"}, "stream")
    features = [Permission("open transactions", "DESCRIBE", answer), READ]
    wanted = {check.FEATURES["transactions"]}
    found = check.Checked(options.clusters[0], wanted, permissions=features)
    assert [each.feature for each in found.missing] == missing
    assert found.is_good == (not missing)
    assert check.key_of(HANGING) == check.key_of("open transactions") == "enrich: transactions"
