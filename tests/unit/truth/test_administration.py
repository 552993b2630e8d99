"""Requests of the administrator that never reached the cluster are made again, and no others."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from truth.administration import Administration, AdministrationError

NOT_SENT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "Timed out waiting for controller"))
IN_FLIGHT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "Timed out in flight"))
REFUSED = KafkaException(
    KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")
)


class Clients:
    """Whose requests fail, or do not, one after the other."""

    def __init__(self, *outcomes: KafkaException | None) -> None:
        self.left = list(outcomes)

    def delete_topics(self, _names: Any, request_timeout: float) -> dict[str, Future[None]]:
        assert request_timeout > 0
        future = Future[None]()
        outcome = self.left.pop(0)
        if outcome is None:
            future.set_result(None)
        else:
            future.set_exception(outcome)
        return {"orders": future}


def administration(monkeypatch: pytest.MonkeyPatch, clients: Clients) -> Administration:
    monkeypatch.setattr(Administration, "_client", lambda _: clients)
    return Administration(None)  # type: ignore[arg-type] - of which nothing is asked


def test_a_request_that_waited_for_a_controller_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Brokers name any that they list as the controller, also one that was killed a moment ago."""
    clients = Clients(NOT_SENT, NOT_SENT, None)
    administration(monkeypatch, clients).delete_topics(["orders"])
    assert clients.left == []


@pytest.mark.parametrize(
    ("outcomes", "left"),
    [
        ([NOT_SENT] * 4, 1),
        ([REFUSED, None], 1),
        ([IN_FLIGHT, None], 1),
        ([NOT_SENT, REFUSED, None], 1),
    ],
    ids=["never sent", "refused", "may have been done", "refused at last"],
)
def test_what_fails_is_said(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[KafkaException | None], left: int
) -> None:
    clients = Clients(*outcomes)
    with pytest.raises(AdministrationError, match=r"Timed out|already exists"):
        administration(monkeypatch, clients).delete_topics(["orders"])
    assert len(clients.left) == left
