"""The known incident and incidents made by hand in one lake, as `serve` shows it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from jobs.configuration.config import load
from kafka_metadata_history.web.access import Access
from kafka_metadata_history.web.app import Pages, Serving, application
from schemas.lake import Lake
from schemas.table import Table
from tests.support.incident import CLUSTER
from tests.support.incident_rows import incident_rows
from tests.support.known_rows import known_rows
from tests.support.made_lakes import made_lake
from tests.support.reports import renamed
from tests.support.transaction_questions import transaction_rows

Rows = dict[Table, list[dict[str, Any]]]
OPENED = "http://127.0.0.1:8484"


def web_rows(*, hostile: bool = False) -> Rows:
    """All rows; `hostile`: topics, groups and clients have names that mean harm."""
    # Those of a second cluster, of which nothing else is known, stay out.
    rows = known_rows() | {
        table: [row for row in own if row.get("cluster") == "prod"]
        for table, own in incident_rows().items()
    }
    rows |= {table: [row | CLUSTER for row in own] for table, own in transaction_rows().items()}
    return renamed(rows) if hostile else rows


def web_lake(folder: Path, rows: Mapping[Table, list[dict[str, Any]]] | None = None) -> Lake:
    return made_lake(folder, web_rows() if rows is None else rows)


def config_of(folder: Path, lake: object) -> str:
    file = folder / "kafka-metadata-history.yaml"
    file.write_text(
        f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    return str(file)


@contextmanager
def pages(
    config: str, access: Access | None = None, *, allow_sql: bool = True, base: str = OPENED
) -> Iterator[TestClient]:
    """A client of the application, in this process."""
    serving = Serving(load(config), config, access or Access(), allow_sql)
    with TestClient(application(Pages(serving)), base_url=base, follow_redirects=False) as client:
        yield client
