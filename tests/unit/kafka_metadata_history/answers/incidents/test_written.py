"""One incident, as people and programs read it: whole lines, at most 25, whatever names it has."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_metadata_history.answers.incidents import advice, words, written
from kafka_metadata_history.answers.incidents.read import read_account, read_recorded
from kafka_metadata_history.answers.incidents.records import (
    Account,
    Finding,
    Incident,
    Recorded,
    record,
)
from kafka_metadata_history.answers.questions import Ask
from kafka_metadata_history.command import app
from schemas.in_duckdb import in_duckdb
from schemas.lake import VIEWS
from tests.support.documents import document
from tests.support.duckdb_lake import duckdb_lake
from tests.support.examples import examples
from tests.support.incident import at
from tests.support.incident_rows import (
    NOW,
    OPEN,
    RESTART,
    UNKNOWN,
    bounds,
    finding,
    incident,
    incident_rows,
    recorded_rows,
)
from tests.support.reports import HOSTILE

ALL_READ = Recorded("prod", at(NOW - 3), True, True, True, True)
NOTHING_READ = Recorded("prod", at(NOW - 3), True, False, False, False)
MARKUP = re.compile(r"(?<!\\)[<`|*\[]")


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with duckdb_lake(incident_rows() | recorded_rows(), VIEWS) as lake:
        yield lambda sql: lake.sql(in_duckdb(sql)).to_arrow_table()


def account(ask: Ask, id_: str) -> Account:
    return read_account(ask, id_, None, read_recorded(ask, None))


def made(row: dict[str, Any], findings: list[dict[str, Any]], **more: Any) -> Account:
    """An account of rows that leave out what is null."""
    of_incident = dict.fromkeys(Incident.__dataclass_fields__) | row
    of_incident["incident_class"] = row["class"]
    empty = dict.fromkeys(Finding.__dataclass_fields__)
    found = [record(Finding, empty | each) for each in findings]
    return Account(record(Incident, of_incident), found, more.pop("recorded", ALL_READ), **more)


def test_the_documented_example(ask: Ask) -> None:
    example = re.search(r"```text\n(.*?)```", document("incidents.md"), re.DOTALL)
    assert example is not None
    assert written.as_text(account(ask, OPEN), at(NOW), None) == example[1]


def test_a_rolling_restart_that_is_over(ask: Ask) -> None:
    lines = written.as_text(account(ask, RESTART), at(NOW), "my file.yaml").splitlines()
    assert lines[0] == "OVER  info, maintenance: brokers 1, 2 and 3 were missing, in prod"
    assert "steps       3 brokers were missing one after the other" in lines
    lines = [line.removeprefix(" " * 12) for line in lines]
    assert (
        "11:51:40Z to 11:51:41Z  Broker 2 was missing until 11:53:19Z [the next one, as "
        "in a rolling restart (inferred)]"
    ) in lines
    assert lines[-2:] == [
        (
            "kafka-metadata-history query restarts --since 2026-11-01T11:48:00Z --until "
            "2026-11-01T11:56:00Z --cluster prod --broker 1 --config 'my file.yaml'"
        ),
        (
            "kafka-metadata-history report --since 2026-11-01T11:48:00Z --until "
            "2026-11-01T11:56:00Z --cluster prod --config 'my file.yaml'"
        ),
    ]


def test_a_cause_that_nobody_knows(ask: Ask) -> None:
    text = written.as_text(account(ask, UNKNOWN), at(NOW), None)
    assert text.startswith("OVER  page: 1 partition of clicks was under min ISR, in prod\n")
    assert "\ncause       not known: no rule finds one\n" in text
    assert (
        "\nwhen        began by 2026-11-01 11:58:20Z; ended between 11:58:30Z and 11:58:40Z" in text
    )


def test_other_ends() -> None:
    times = bounds((9, 10), (19, 20))
    for reason, more, says in (
        ("merged", {"merged_into": "b" * 12}, f"MERGED into {'b' * 12}  page"),
        ("withdrawn", {}, "WITHDRAWN (another source showed that it was none)  page"),
        ("removed", {}, "OVER (the broker is gone for a day: inferred)  page"),
    ):
        row = incident("a" * 12, "broker_missing", times, severity="page", end_reason=reason)
        text = written.as_text(made(row | more, []), at(NOW), None)
        assert text.startswith(says)
        assert "\nstory       no finding is recorded\n" in text
    assert "explain bbbbbbbbbbbb" in written.as_text(
        made(row | {"end_reason": "merged", "merged_into": "b" * 12}, []), at(NOW), None
    )


def test_sources_that_are_not_read_are_named() -> None:
    of = made(incident("a", "lag", bounds((9, 10))), [], recorded=NOTHING_READ)
    (line,) = (
        line
        for line in written.as_text(of, at(NOW), None).splitlines()
        if line.startswith("not known")
    )
    assert "pauses" in line
    assert "lag (`enrich: offsets`" in line
    assert "controlled stops" in line


def test_json_has_types_and_all_findings(ask: Ask) -> None:
    text = written.as_json(account(ask, OPEN), at(NOW), None)
    said = json.loads(text)
    assert text.count("\n") == 1
    assert (said["state"], said["offline"], said["brokers"]) == ("open", 2, [3])
    assert [each["kind"] for each in said["findings"]][-2:] == ["pause", "lag"]
    assert said["findings"][1]["rule"] == "missing_isr"
    assert said["logs"][0]["hosts"] == ["broker 3 (kafka3:9092)"]
    assert len(said["commands"]) == advice.COMMANDS


def test_markdown_has_all_findings_and_no_markup_of_names() -> None:
    times = bounds((9, 10), (19, 20))
    name = "<b>|a`*[x](y)"
    findings = [finding("a", n, "rebalance", times, group_id=name) for n in range(40)]
    text = written.as_markdown(
        made(incident("a", "group_stuck", times, group_ids=[name]), findings), at(NOW), None
    )
    rows = [line for line in text.splitlines() if line.startswith("| 12:")]
    assert len(rows) == 40
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    prose = text.partition("```console")[0].replace("**OVER.**", "")
    prose = "\n".join(line for line in prose.splitlines() if not line.startswith("|"))
    assert MARKUP.search(prose) is None


NAMES = st.sampled_from([*HOSTILE, "shop", "-x", "it's", "$(x)", "g" * 500, "\n"])
KINDS = st.sampled_from([*words.SENTENCES, "a_new_kind"])


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    """Any incident: with any number of findings, gaps, hosts and names."""
    is_open = draw(st.booleans())
    times = bounds((draw(st.sampled_from([None, 9])), 10), None if is_open else (19, 20))
    name = draw(NAMES)
    findings = [
        finding(
            "a", number, draw(KINDS), times, group_id=draw(st.one_of(st.none(), NAMES)), topic=name,
            broker_id=draw(st.one_of(st.none(), st.integers(0, 5))), brokers=[1, 2],
            partitions=draw(st.integers(0, 3)), number=draw(st.one_of(st.none(), st.just(7))),
            rule=draw(st.sampled_from([None, *words.RULES, "new"])), sureness="inferred",
        )
        for number in range(draw(st.integers(0, 60)))
    ]  # fmt: skip
    row = incident(
        "a" * 12, draw(KINDS), times, severity=draw(st.sampled_from(["page", "ticket", "info"])),
        cause=draw(st.sampled_from([*words.CAUSES, "new_cause"])),
        cause_of=draw(st.sampled_from([None, "3", name])), cause_sureness="bounded",
        alternatives=draw(st.lists(st.just(f"rack: {name}"), max_size=5)),
        brokers=draw(st.lists(st.integers(0, 200), max_size=9)),
        group_ids=draw(st.lists(NAMES, max_size=9)), topics=[name],
        overlaps=draw(st.lists(st.just("b"), max_size=9)), is_escalated=draw(st.booleans()),
        steps=draw(st.integers(1, 4)), offline=1, offline_most=2, reopened=draw(st.integers(0, 2)),
        end_reason=None if is_open else draw(st.sampled_from(["recovered", "merged", "removed"])),
        **{"class": draw(st.sampled_from(["incident", "maintenance"]))},
        merged_into=draw(st.sampled_from([None, "b" * 12])),
    )  # fmt: skip
    return made(
        row,
        findings,
        recorded=draw(st.sampled_from([ALL_READ, NOTHING_READ])),
        gaps=[(at(0), at(5))] * draw(st.integers(0, 2)),
        hosts=draw(st.sampled_from([{}, {1: "kafka1:9092", 2: f"{name}:9092"}])),
        controllers=draw(st.sampled_from([[], [3001]])),
    )


@given(accounts())
@settings(max_examples=examples(100))
def test_a_text_has_at_most_25_lines_that_all_print(of: Account) -> None:
    lines = written.as_text(of, at(NOW), None).split("\n")
    assert lines.pop() == ""
    assert len(lines) <= written.LINES
    assert all(line.isprintable() for line in lines)
    told = [line for line in lines if re.search(r"^(story)? +(by )?12:", line)]
    left = [re.search(r"and ([\d,]+) more finding", line) for line in lines]
    counts = [int(each[1].replace(",", "")) for each in left if each]
    assert len(told) + sum(counts) == len(of.findings), "no finding is lost"
    assert len(counts) <= 1


@given(accounts())
@settings(max_examples=examples(100))
def test_each_command_is_parsed_by_the_command_line(of: Account) -> None:
    lines = [*advice.commands(of, "a b.yaml"), advice.all_findings(of, None)]
    assert len(lines) == advice.COMMANDS + 1
    for line in lines:
        assert line.isprintable()
        program, name, *words_ = shlex.split(line)
        assert program == "kafka-metadata-history"
        context = app.commands[name].make_context(name, [*words_])
        if "cluster" in context.params and "--incident" not in words_ and name != "explain":
            assert context.params["cluster"] == "prod"


@given(accounts())
@settings(max_examples=examples(25))
def test_all_forms_take_all_incidents(of: Account) -> None:
    assert json.loads(written.as_json(of, at(NOW), None))["id"] == "a" * 12
    text = written.as_markdown(of, at(NOW), None)
    assert all(line.isprintable() for line in text.splitlines())
    assert text.count("\n```") == 2
