"""The words for incidents, in each form, for commands, Python and agents."""

from collections.abc import Callable
from datetime import datetime

from jobs.configuration.config import Config
from jobs.configuration.severities import NOTHING_RECORDED, SEVERITIES
from kafka_metadata_history.answers.incidents import listing, written
from kafka_metadata_history.answers.incidents.read import (
    read_account,
    read_open,
    read_over,
    read_recorded,
)
from kafka_metadata_history.answers.questions import Ask

FORMS = tuple(written.FORMS)


def explained(
    ask: Ask,
    config: Config | None,
    incident: str | None,
    cluster: str | None,
    *,
    now: datetime,
    named: str | None = None,
) -> Callable[[str], str]:
    """Find which incidents are open, or one of them by the beginning of its id; return what says it
    in one of FORMS. `config`: None: there is none. `named`: the file that commands in the text are
    to name.

    Raises QueryError for an incident or a cluster that history does not know.
    """
    recorded = read_recorded(ask, cluster)
    if incident is not None:
        account = read_account(ask, incident, cluster, recorded)
        return lambda form: written.FORMS[form](account, now, named)
    expected = [] if config is None else [*config.clusters]
    severities = SEVERITIES if config is None else config.severities
    all_of_them = listing.Listing(
        recorded,
        read_open(ask, cluster),
        read_over(ask, cluster),
        [name for name in expected if cluster in {None, name}],
        severities[NOTHING_RECORDED].page,
    )
    return lambda form: listing.FORMS[form](all_of_them, now, named)
