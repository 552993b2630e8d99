import pytest

from tests.support.small_log import LOG, POLLS, history
from truth.compare import TOLERANCE
from truth.log import truth_of
from truth.model.states import Truth
from truth.observed import Seen, Watch


@pytest.fixture
def truth() -> Truth:
    return truth_of(LOG)


@pytest.fixture
def watch() -> Watch:
    return Watch.over(POLLS, TOLERANCE)


@pytest.fixture
def rows(truth: Truth) -> list[Seen]:
    return history(truth, POLLS)
