"""One incident: as text for people, as JSON for programs, as Markdown for a post-mortem."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_metadata_history.answers.incidents import advice, story, words
from kafka_metadata_history.answers.questions import shown
from kafka_metadata_history.answers.text import as_json as json_lines
from metadata_source.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.incidents.records import Account, Finding

LINES: Final = 25
"""The most of a text."""
_INDENT: Final = 12


def as_text(of: Account, now: datetime, config: str | None) -> str:
    """Return at most LINES lines."""
    head = [f"{story.state(of.incident)}  {story.title(of.incident)}", *_facts(of, now)]
    hidden = words.CAUSES.get(of.incident.cause, words.CAUSES["unknown"]).hidden
    tail = [_line("not shown", f"metadata does not show {hidden}")]
    if lacking := story.lacks(of.recorded):
        tail.append(_line("not known", "; ".join(lacking)))
    for number, log in enumerate(advice.logs(of)):
        tail.append(_line("" if number else "read", _log(log)))
    for number, command in enumerate(advice.commands(of, config)):
        tail.append(_line("" if number else "next", command))
    body = _story(of, LINES - len(head) - len(tail), config)
    return "".join(f"{printable(line)}\n" for line in (*head, *body, *tail))


def _facts(of: Account, now: datetime) -> Iterator[str]:
    found = of.incident
    yield _line("id", found.id)
    yield _line("when", story.since(found, now))
    yield _line("hurt now" if found.is_open else "hurt", story.hurt(found))
    yield _line("cause", story.cause(found))
    for name, said in story.beside(found):
        yield _line(name, said)
    yield _line("record", story.record_age(of, now))


def _story(of: Account, most: int, config: str | None) -> list[str]:
    """Return the findings in order of time, in so many lines."""
    if not of.findings:
        return [_line("story", "no finding is recorded")]
    shown_, left = _shortened(of.findings, most)
    day = _day(of)
    told = [story.told(each, day) for each in shown_]
    width = max(len(when) for when, _, _ in told)
    lines = [
        _line("" if number else "story", f"{when:{width}}  {said}{why and f' [{why}]'}")
        for number, (when, said, why) in enumerate(told)
    ]
    return lines + ([_line("", _more(left, of, config))] if left else [])


def _shortened(findings: Sequence[Finding], most: int) -> tuple[list[Finding], int]:
    """Return the findings that have a line, and how many have none, of which one line tells."""
    shown_ = story.chosen(findings, most if len(findings) <= most else most - 1)
    return shown_, len(findings) - len(shown_)


def _more(left: int, of: Account, config: str | None) -> str:
    return f"and {counted(left, 'more finding')}: {advice.all_findings(of, config)}"


def _day(of: Account) -> str:
    return words.day_of(*(each.began_before for each in of.findings))


def _log(of: advice.Log) -> str:
    why = f", {of.why}" if of.why else ""
    return (
        f"{of.file} of {words.listed(of.hosts)}{why}: {shown(of.since)} to "
        f"{words.clock(of.until, words.day_of(of.since, of.until))}"
    )


def _line(name: str, said: str) -> str:
    return f"{name:{_INDENT}}{said}"


def as_json(of: Account, now: datetime, config: str | None) -> str:
    """Return one object on one line: the incident, its findings, and what there is to do."""
    found = of.incident
    fields = {
        "state": "open" if found.is_open else found.end_reason,
        **asdict(found),
        "says": story.sentence(found),
        "recorded_until": of.recorded.until,
        "gaps": [{"gap_start": begin, "gap_end": end} for begin, end in of.gaps],
        "findings": [{**asdict(each), "says": words.of_finding(each)} for each in of.findings],
        "not_known": story.lacks(of.recorded),
        "logs": [asdict(each) for each in advice.logs(of)],
        "commands": advice.commands(of, config),
        "at": now,
    }
    return json_lines(pa.Table.from_pylist([fields]))


def as_markdown(of: Account, now: datetime, config: str | None) -> str:
    """Return a section of a post-mortem, with all findings."""
    day = _day(of)
    head = [
        f"### {_escaped(words.capital(words.of_incident(of.incident)))}",
        "",
        f"**{_escaped(story.state(of.incident))}.** {_escaped(story.sentence(of.incident))}",
        "",
    ]
    facts = [f"- {_escaped(line)}" for line in _facts_of(of, now)]
    table = ["", "| time | finding | why |", "|---|---|---|"]
    rows = ["| " + " | ".join(map(_escaped, story.told(each, day))) + " |" for each in of.findings]
    commands = ["", "```console", *(f"$ {each}" for each in advice.commands(of, config)), "```"]
    lines = [*head, *facts, *(table + rows if rows else []), *commands]
    return "".join(f"{printable(line)}\n" for line in lines)


def _facts_of(of: Account, now: datetime) -> Iterator[str]:
    found = of.incident
    yield f"Incident {found.id} of {found.cluster}, {found.severity}"
    yield f"When: {story.since(found, now)}"
    yield f"Cause: {story.cause(found)}"
    for name, said in story.beside(found):
        yield f"{words.capital(name)}: {said}"
    yield f"Record: {story.record_age(of, now)}"
    if lacking := story.lacks(of.recorded):
        yield f"Not known: {'; '.join(lacking)}"
    for each in advice.logs(of):
        yield f"To read: {_log(each)}"


_MARKS: Final = re.compile(r"([\\`*_\[\]<>|#~&])")


def _escaped(text: str) -> str:
    """Return a text in which nothing is markup."""
    return _MARKS.sub(r"\\\1", printable(text))


FORMS: Final = {"text": as_text, "json": as_json, "md": as_markdown}
