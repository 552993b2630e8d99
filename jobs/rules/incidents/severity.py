"""The severity of findings, by a table of kinds."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from jobs.configuration.severities import INFO, Severity
from jobs.rules.incidents.finding import Finding
from schemas.incidents import SEVERITIES


def severity(findings: Iterable[Finding], until: datetime, table: Mapping[str, Severity]) -> str:
    """The worst severity that a finding has reached."""
    reached = [table[each.kind].at(each.lasted(until)) for each in findings if each.kind in table]
    return max(reached, key=SEVERITIES.index, default=INFO)


def next_severity(
    findings: Iterable[Finding], until: datetime, table: Mapping[str, Severity]
) -> Iterable[datetime]:
    """When findings that last are worse, if nothing changes."""
    for each in findings:
        if each.kind in table and each.ended_before is None:
            after = table[each.kind].next_after(until - each.spans[-1][0])
            if after is not None:
                yield each.spans[-1][0] + after
