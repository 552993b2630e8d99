"""The page: one HTML file, in which nothing is loaded and nothing but its own two scripts runs.

A Content-Security-Policy names these scripts by their digests and allows no connection at all; and
all that a cluster named is escaped besides.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bokeh.document import Document
from bokeh.resources import Resources

from kafka_metadata_history.answers.questions import FILTERS
from kafka_metadata_history.answers.questions import shown as time_shown
from kafka_metadata_history.answers.text import as_table
from kafka_metadata_history.report import figures
from kafka_metadata_history.report.legends import legend
from kafka_metadata_history.report.marks import shown
from kafka_metadata_history.report.moments import between, ms, text
from kafka_metadata_history.report.queries import PARTITIONS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_metadata_history.report.marks import DrawnSection, Mark
    from kafka_metadata_history.report.report_data import ReportData

_HERE: Final = Path(__file__).parent
MOST_OTHERS: Final = 20

ABOUT: Final = {
    "brokers": (
        "When some ISR lacked a broker. The colour is the worst level that a partition reached "
        "meanwhile."
    ),
    "levels": (
        "How many partitions were at each level. Levels include each other: offline is "
        "under-replicated, too."
    ),
    "isrs": (
        "A bar for each stretch of a partition at a level. A worse level is thinner, and lies "
        "over a milder one."
    ),
    "leaders": (
        "A shape where the change had happened, a line from the last poll that did not show it."
    ),
    "groups": (
        "A shape where the rebalance had begun, a bar while it lasted. Storms and crash loops are "
        "below it."
    ),
    "lag": "A bar while a group was not OK by Burrow's rules. Polls ask for offsets now and then.",
    "coordinators": "From which broker to which the coordinators of groups moved.",
    "settings": "Told by the controllers' log alone.",
    "marked": "Changes and maintenance, marked with `mark`. A window is a bar, a change a shape.",
}
QUESTIONS: Final = {
    "brokers": "broker_incidents",
    "isrs": "timeline",
    "leaders": "timeline",
    "groups": "rebalances",
    "lag": "lag",
    "coordinators": "timeline",
    "settings": "timeline",
    "marked": "timeline",
}
"""Section -> the named question that lists all of its rows."""


def page(data: ReportData, week: str = "") -> str:
    """Return the page as HTML. `week`: a table of text, for people."""
    is_empty = data.rows == 0
    body = [_header(data), *([_week(week)] if week else [])]
    if is_empty:
        body += [_nothing(data), *_listed(data)]
        return _html(_title(data), body, ())
    on = figures.axis(data.window, data.gaps)
    sections, parts, plots = [], [], {}
    for drawn in _sections(data):
        if drawn.section is PARTITIONS and data.levels:
            plots["levels"] = figures.levels(data.levels, on, data.window)
            parts.append(
                _figure("levels", "ISRs: partitions at each level", "", [], legend("levels", ()))
            )
        parts.append(_section(data, drawn))
        if drawn.marks:
            plots[drawn.section.name] = figures.lanes(drawn, on, data.window)
            sections.append(_behind(data, drawn))
    document = Document()
    with document.models.freeze():  # or all models so far are counted again with each
        for plot in plots.values():
            document.add_root(plot)
    roots = {plot.id: f"figure-{name}" for name, plot in plots.items()}
    body += [_largest(data), _tools(), *parts, *_listed(data), _panel()]
    items = {
        "docs": {"report": document.to_json(deferred=False)},
        "items": [{"docid": "report", "roots": roots, "root_ids": list(roots)}],
        "window": [data.window.since, data.window.until],
        "sections": sections,
    }
    items_script = f'<script type="application/json" id="data">{_json(items)}</script>'
    scripts = [
        *Resources(mode="inline", components=["bokeh"]).js_raw,
        (_HERE / "page.js").read_text(encoding="utf-8"),
    ]
    return _html(_title(data), [*body, items_script], ["\n".join(scripts)])


def _sections(data: ReportData) -> list[DrawnSection]:
    return [each for each in data.sections if each.marks or not each.section.is_optional]


def _html(title: str, body: Iterable[str], scripts: Sequence[str]) -> str:
    # `</script` ends a script wherever it is; in texts of JavaScript the backslash changes nothing.
    scripts = [re.sub(r"</(?=script)", r"<\/", script, flags=re.IGNORECASE) for script in scripts]
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
        *body,
        *(f"<script>{script}</script>" for script in scripts),
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(lines)


def _json(value: object) -> str:
    """Return JSON in which nothing ends a script, or begins a comment."""
    made = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return made.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _title(data: ReportData) -> str:
    return (
        f"Kafka metadata history of {shown(data.cluster)}"
        if data.cluster is not None
        else "Kafka metadata history"
    )


# --- the head ---


def _header(data: ReportData) -> str:
    window = f"{time_shown(data.asked.since)} to {time_shown(data.asked.until)}"
    chosen = ""
    if data.others is not None and data.cluster is not None:
        chosen = _chosen(data)
    terms = [("Window", window), *_known(data), ("Made", time_shown(data.made_at))]
    narrowed = {name: value for name, value in data.asked.filters.items() if name != "cluster"}
    if narrowed:
        terms.insert(
            1,
            (
                "Narrowed to",
                ", ".join(f"{name} {shown(value)}" for name, value in narrowed.items()),
            ),
        )
    listed = "".join(f"<dt>{escape(term)}</dt><dd>{escape(value)}</dd>" for term, value in terms)
    title = escape(_title(data))
    lines = f"{_incidents(data)}{chosen}{_counts(data)}<dl>{listed}</dl>"
    return f"<header><h1>{title}</h1>{lines}</header>"


def _incidents(data: ReportData) -> str:
    said = " ".join(map(escape, data.incidents))
    return f'<p class="incidents">{said}</p>' if said else ""


def _chosen(data: ReportData) -> str:
    assert data.others is not None  # noqa: S101 - for mypy
    most = f"{data.events:,} events" if data.events else "no events"
    if not data.others:
        return f"<p>The lake has this cluster alone. Its timeline has {most} in the window.</p>"
    named = ", ".join(f"{escape(name)} ({count:,})" for name, count in data.others[:MOST_OTHERS])
    left = len(data.others) - MOST_OTHERS
    more = f" and {left:,} more" if left > 0 else ""
    return (
        f"<p>No cluster was asked for. This is the one to which most happened: {most} in the "
        f"window. Events of the others: {named}{more}. <code>--cluster</code> chooses one.</p>"
    )


def _known(data: ReportData) -> list[tuple[str, str]]:
    lines = [("Known", line) for line in data.reach]
    if data.gaps_left_out:
        lines.append(
            ("Known", f"{data.gaps_left_out:,} more gaps, the shorter ones, are not hatched below")
        )
    return [(term if not number else "", line) for number, (term, line) in enumerate(lines)]


def _counts(data: ReportData) -> str:
    names = {
        "brokers": ("broker incident", "broker incidents"),
        "isrs": ("ISR episode", "ISR episodes"),
        "leaders": ("leader change", "leader changes"),
        "groups": ("rebalance", "rebalances"),
        "lag": ("time behind", "times behind"),
        "coordinators": ("coordinator move", "coordinator moves"),
        "settings": ("election or setting", "elections and settings"),
        "marked": ("mark", "marks"),
    }
    cells = []
    for drawn in _sections(data):
        one, many = names[drawn.section.name]
        count = "?" if drawn.missing else f"{drawn.counted:,}"
        cells.append(f"<li><b>{count}</b> {one if drawn.counted == 1 else many}</li>")
    return f'<ul class="counts">{"".join(cells)}</ul>' if cells else ""


def _nothing(data: ReportData) -> str:
    if data.cluster is None:
        return (
            "<p class='nothing'>Nothing is known: the lake has no history of any cluster yet.</p>"
        )
    is_known = data.known_from is not None and (
        data.known_from < data.window.until and data.window.known_until > data.window.since
    )
    what = (
        "Nothing"
        if {each.section for each in data.sections} == {*SECTIONS}
        else "Nothing of this kind"
    )
    says = (
        f"{what} happened in this window, as far as polls saw."
        if is_known
        else "Nothing is known of this window: history lies outside it."
    )
    gaps = "".join(
        f"<li>{escape(text(gap.begin))} to {escape(text(gap.end))}: {escape(gap.why)}</li>"
        for gap in data.gaps[:20]
    )
    listed = f"<p>Of these stretches nothing is known:</p><ul>{gaps}</ul>" if gaps else ""
    missing = "".join(
        (
            f"<p>Nothing is known of &ldquo;{escape(each.section.title)}&rdquo;: "
            f"{escape(each.missing)}</p>"
        )
        for each in data.sections
        if each.missing
    )
    return f"<p class='nothing'>{says}</p>{listed}{missing}"


def _week(table: str) -> str:
    return (
        '<section id="week"><h2>Seven days against the seven before</h2><div class="wide">'
        f"<pre>{escape(table)}</pre></div></section>"
    )


def _largest(data: ReportData) -> str:
    rows = []
    for row in data.largest:
        began = between(ms(row["began_after"]), ms(row["began_before"]), data.window.day)
        ended = between(ms(row["ended_after"]), ms(row["ended_before"]), data.window.day)
        if row["ended_before"] is None:
            ended = "not by the end of what is known"
        cells = (shown(row["thing"]), began, ended, shown(row["inferred"]))
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return (
        '<section class="largest"><h2>The largest things</h2><div class="wide"><table><thead><tr>'
        "<th>Thing</th><th>Began, or the first (UTC)</th><th>Ended, or the last "
        "(UTC)</th><th>Inferred</th>"
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _listed(data: ReportData) -> Iterator[str]:
    for each in data.listed:
        of = each.listing
        if each.rows is None:
            told = f'<p class="about">Nothing is known of this: {escape(each.missing)}</p>'
        else:
            line = command(data, of.question)
            is_part = each.count > len(each.rows)
            part = f"{len(each.rows)} of {each.count:,} rows are shown. " if is_part else ""
            told = (
                f'<p class="about">{escape(of.about)}</p><div class="wide"><pre>'
                f'{escape(as_table(each.rows))}</pre></div><p class="note">{part}'
                f"All rows: <code>{escape(line)}</code></p>"
            )
        yield (
            f'<section class="listed" id="listed-{of.question}"><h2>{escape(of.title)}</h2>{told}'
            "</section>"
        )


# --- figures ---


def _tools() -> str:
    return """<nav id="tools" aria-label="Time axis of all figures">
<span class="buttons"><button type="button" id="pan" aria-pressed="true">Drag pans</button>
<button type="button" id="box" aria-pressed="false">Drag zooms</button></span>
<span class="buttons"><button type="button" id="wheel" aria-pressed="true">Wheel zooms</button>
</span>
<span class="buttons"><button type="button" id="in" aria-label="Zoom in">+</button>
<button type="button" id="out" aria-label="Zoom out">&minus;</button>
<button type="button" id="reset">Whole window</button></span>
<output id="shown"></output>
<span class="hint">UTC. Click a bar or a shape to see its rows. Hatched: nothing is known.</span>
</nav>"""


def _section(data: ReportData, drawn: DrawnSection) -> str:
    section = drawn.section
    if drawn.missing:
        told = f"Nothing is known of this: {drawn.missing}"
    elif not drawn.marks:
        told = "Nothing of this kind happened in the window, as far as polls saw."
    else:
        told = ""
    notes = _left_out(data, drawn)
    if idle := [
        f"--{name}" for name in data.asked.filters if name not in {*section.narrowed, "cluster"}
    ]:
        notes.append(f"{', '.join(idle)} does not narrow this figure.")
    kinds = [mark.kind for mark in drawn.marks]
    return _figure(section.name, section.title, told, notes, legend(section.name, kinds))


def _figure(name: str, title: str, told: str, notes: Iterable[str], keys: str) -> str:
    said = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    drawn = (
        f'<p class="about">{escape(told)}</p>'
        if told
        else f'<div class="figure" id="figure-{name}"></div>'
    )
    about = "" if told else f'<p class="about">{escape(ABOUT[name])}</p>'
    return (
        '<section class="drawn" '
        f'id="{name}"><h2>{escape(title)}</h2>{about}{"" if told else keys}{drawn}{said}'
        "</section>"
    )


def _left_out(data: ReportData, drawn: DrawnSection) -> list[str]:
    """Return what the figure leaves out, and how to see it."""
    if not drawn.left_out:
        return []
    section = drawn.section
    lanes = (
        (
            f"{drawn.lanes_all - len(drawn.lanes):,} of {drawn.lanes_all:,} {section.lane}s have "
            "no lane: "
        )
        if drawn.lanes_all > len(drawn.lanes)
        else ""
    )
    options = [f"--{name}" for name in section.narrowed if name not in data.asked.filters]
    narrow = f"{', '.join(options)} or a shorter window" if options else "a shorter window"
    return [
        (
            f"Left out: {lanes}{drawn.left_out:,} of {drawn.rows:,} rows are not drawn. Narrow "
            f"with {narrow}."
        )
    ]


def _panel() -> str:
    heads = ("What", "Of", "Began (UTC)", "Ended (UTC)", "Details", "Inferred", "Table")
    return (
        '<aside id="rows" hidden aria-live="polite"><div class="head"><h2 id="rows-title"></h2>'
        '<button type="button" id="close" aria-label="Close">&times;</button></div>'
        '<p id="rows-note" class="note"></p><div class="wide"><table><thead><tr>'
        f"{''.join(f'<th>{head}</th>' for head in heads)}"
        '</tr></thead><tbody id="rows-body"></tbody></table></div></aside>'
    )


def _behind(data: ReportData, drawn: DrawnSection) -> dict[str, Any]:
    """Return the rows behind each mark, in the figure's order, as texts for the script's table."""
    return {
        "name": drawn.section.name,
        "table": drawn.section.table,
        "lane": drawn.section.lane,
        "query": command(data, QUESTIONS[drawn.section.name]),
        "marks": [_rows(mark) for mark in drawn.marks],
    }


def _rows(mark: Mark) -> list[Any]:
    rows = [
        [row.kind, row.subject, *row.began, *row.ended, row.details, row.inferred, row.table]
        for row in mark.behind
    ]
    return [mark.rows, rows]


def command(data: ReportData, name: str) -> str:
    """Return the command that lists all rows of a named question for the page's window."""
    filters = [
        word
        for option in FILTERS
        if (value := data.asked.filters.get(option)) is not None
        for word in (f"--{option}", shown(value))
    ]
    window = ["--since", data.asked.since.isoformat(), "--until", data.asked.until.isoformat()]
    return shlex.join(["kafka-metadata-history", "query", name, *window, *filters, "--limit", "0"])
