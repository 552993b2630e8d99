"""Every request that the product sends is known to the tests, which let Kafka's own classes read
them (tests/spark).
"""

from tests.support.for_each import for_each
from tests.support.requests import ASKED, CLIENT, CORRELATION, functions_that_ask


def test_every_function_that_asks_is_held_against_kafka() -> None:
    assert functions_that_ask() == set(ASKED)


@for_each("function", ASKED)
def test_each_request_is_sent_under_its_own_key_and_version(function: str) -> None:
    for asked in ASKED[function]:
        api_key, first, last = asked.versions
        for version in range(first, last + 1):
            header = api_key.to_bytes(2) + version.to_bytes(2) + CORRELATION.to_bytes(4)
            assert asked.frame(version).startswith(
                header + len(CLIENT).to_bytes(2) + CLIENT.encode()
            )
