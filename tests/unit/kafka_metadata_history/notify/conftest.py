from collections.abc import Iterator

import pytest

from tests.support.http_receiver import HttpReceiver, receiving


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this machine's settings none leads elsewhere."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with receiving() as found:
        yield found
