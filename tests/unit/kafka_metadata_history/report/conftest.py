"""The known incident, opened once for the tests of the report."""

from collections.abc import Iterator

import pytest

from schemas import bronze
from schemas.lake import VIEWS
from tests.support.duckdb_lake import duckdb_lake
from tests.support.known_rows import known_rows
from tests.support.reports import Lake, page_of


@pytest.fixture(scope="package")
def lake() -> Iterator[Lake]:
    with duckdb_lake({bronze.METADATA_POLLS: [], **known_rows()}, VIEWS) as opened:
        yield opened


@pytest.fixture(scope="package")
def page(lake: Lake) -> str:
    return page_of(lake)
