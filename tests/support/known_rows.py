"""The known incident in all tables: rows that rules make of polls, and rows made by hand."""

from typing import Any

from schemas.consumption import GROUP_LAG
from schemas.lake import Lake
from schemas.table import Table
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.held_up_questions import held_up_rows
from tests.support.incident import answers
from tests.support.incident_controllers import controllers_rows
from tests.support.incident_groups import group_rows, lag_rows
from tests.support.incident_log import log_rows
from tests.support.incident_rows import incident_rows
from tests.support.incident_storage import storage_rows
from tests.support.large_rounds import tables_of
from tests.support.transaction_questions import transaction_rows


def known_rows() -> dict[Table, list[dict[str, Any]]]:
    """All that is known: the rows that the rules make of polls, and these."""
    return tables_of(bronze_rows("prod", answers())) | _made_by_hand()


def asked_rows() -> dict[Table, list[dict[str, Any]]]:
    """Those, and of a cluster that only questions are about."""
    rows = known_rows() | held_up_rows()
    rows[GROUP_LAG] += lag_rows()
    return rows


def _made_by_hand() -> dict[Table, list[dict[str, Any]]]:
    return (
        group_rows()
        | log_rows()
        | controllers_rows()
        | incident_rows("east")
        | transaction_rows()
        | storage_rows()
    )


def write_rows(lake: Lake) -> None:
    """Append those that no rules make here to the lake's tables."""
    for rows in (_made_by_hand(), held_up_rows()):
        for table, of in rows.items():
            stored.append(lake, table, of)
