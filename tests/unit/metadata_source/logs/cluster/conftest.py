"""A quorum that listens, and streams of its log."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.support.controllers_log import Follow, Stream, listening
from tests.support.quorum import Quorum


@pytest.fixture
def quorum() -> Iterator[Quorum]:
    with listening() as made:
        yield made


@pytest.fixture
def follow(quorum: Quorum) -> Iterator[Follow]:
    with ExitStack() as made:
        yield lambda starting="earliest": made.enter_context(closing(Stream(quorum, starting)))
