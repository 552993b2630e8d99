"""The report in a real browser, headless Chromium. Without one these tests are skipped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_metadata_history.report.make import Report
from schemas.lake import VIEWS
from tests.support import chromium
from tests.support.chromium import Tab, tab
from tests.support.duckdb_lake import duckdb_lake
from tests.support.known_rows import known_rows
from tests.support.reports import DAY, large_lake, page_of, renamed

pytestmark = pytest.mark.skipif(
    chromium.found() is None, reason=f"no Chromium here: none of {chromium.NAMES}"
)

READY = "document.documentElement?.dataset.ready === 'yes'"
FIGURES = ("brokers", "levels", "isrs", "leaders", "groups", "coordinators", "settings", "marked")
RANGES = "Bokeh.documents[0].roots().map(root => `${root.x_range.start} ${root.x_range.end}`)"
TIPS = """(() => {
  const found = [];
  const seek = (root) => root.querySelectorAll("*").forEach((each) => {
    if (each.classList.contains("bk-Tooltip") && each.offsetWidth)
      found.push(each.shadowRoot.textContent);
    if (each.shadowRoot) seek(each.shadowRoot);
  });
  seek(document);
  return found.join(" | ");
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    window = ("2026-11-01T11:59:50Z", "2026-11-01T12:02:10Z")
    with duckdb_lake(known_rows(), VIEWS) as lake:
        (folder / "known.html").write_text(page_of(lake, *window))
    with duckdb_lake(renamed(known_rows()), VIEWS) as lake:
        (folder / "hostile.html").write_text(page_of(lake, *window))
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with tab(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def opened(browser: Tab, file: Path, width: int = 1280) -> None:
    """Open a page as if for the first time."""
    browser.events.clear()
    browser.resize(width)
    browser.call("Page.navigate", url=file.as_uri())
    browser.until(READY, 60)


def place(browser: Tab, figure: str, mark: str) -> tuple[float, float]:
    """Where the middle of a mark is in the view: `mark` is a condition over its row. The figure is
    scrolled to.
    """
    x, y = browser.value(
        f"""(() => {{
          const root = Bokeh.documents[0].roots().find(root => root.name === "{figure}");
          const view = Bokeh.index.find_one(root);
          document.getElementById("figure-{figure}").scrollIntoView({{block: "center"}});
          const data = Bokeh.documents[0].get_model_by_name("{figure} rows").data;
          const found = [...data.y.keys()].find((n) => {{
            const row = Object.fromEntries(
              Object.entries(data).map(([key, column]) => [key, column[n]])
            );
            return {mark};
          }});
          const canvas = view.el.getBoundingClientRect();
          const middle = (data.sure_from[found] + data.sure_until[found]) / 2;
          const x = view.frame.x_scale.compute(middle);
          const y = view.frame.y_scale.compute(data.y[found]);
          return [canvas.left + x, canvas.top + y];
        }})()"""
    )
    return x, y


OFFLINE = "row.lane === 'broker 2' && row.what === 'offline'"


@pytest.mark.parametrize("width", [1280, 1920])
def test_every_figure_is_as_wide_as_the_page_and_in_line(
    browser: Tab, pages: Path, tmp_path: Path, width: int
) -> None:
    opened(browser, pages / "known.html", width)
    frames = browser.value(
        "Bokeh.documents[0].roots().map(root => {"
        " const view = Bokeh.index.find_one(root); const box = view.el.getBoundingClientRect();"
        " const at = (x) => Math.round(box.left + x);"
        " return [root.name, at(view.frame.bbox.left), at(view.frame.bbox.right)];"
        "})"
    )
    assert tuple(name for name, *_ in frames) == FIGURES
    ((left, right),) = {(left, right) for _, left, right in frames}
    assert left < 0.2 * width
    assert right > 0.94 * width
    assert browser.value("document.documentElement.scrollWidth") == width
    browser.screenshot(tmp_path / f"{width}.png")
    assert (tmp_path / f"{width}.png").stat().st_size > 50_000


def test_a_pointer_over_a_bar_shows_what_it_is(browser: Tab, pages: Path) -> None:
    opened(browser, pages / "known.html")
    browser.move(*place(browser, "brokers", OFFLINE))
    tip = browser.until(TIPS)
    for part in (
        "offline",
        "broker 2",
        "between 12:00:00.000 and 12:00:10.100",
        "broker_down",
        "rows",
    ):
        assert part in tip


def test_the_wheel_moves_the_axis_of_all_figures(browser: Tab, pages: Path) -> None:
    opened(browser, pages / "known.html")
    (whole,) = set(browser.value(RANGES))
    x, y = place(browser, "brokers", OFFLINE)
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    browser.until(f"!{RANGES}.includes('{whole}')")
    (near,) = set(browser.value(RANGES))
    assert near != whole
    browser.value("document.getElementById('reset').click()")
    assert set(browser.value(RANGES)) == {whole}
    browser.value("document.getElementById('wheel').click()")
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    browser.move(x, y)
    assert set(browser.value(RANGES)) == {whole}


def test_a_dragged_box_zooms(browser: Tab, pages: Path) -> None:
    opened(browser, pages / "known.html")
    (whole,) = set(browser.value(RANGES))
    browser.value("document.getElementById('box').click()")
    x, y = place(browser, "isrs", "row.lane === 'orders-0'")
    browser.move(x, y)
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    for step in range(1, 6):
        browser.mouse("mouseMoved", x + 30 * step, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x + 150, y, button="left", clickCount=1)
    browser.until(f"!{RANGES}.includes('{whole}')")
    assert len(set(browser.value(RANGES))) == 1


def test_a_click_shows_the_rows_behind(browser: Tab, pages: Path) -> None:
    opened(browser, pages / "known.html")
    browser.click(*place(browser, "brokers", OFFLINE))
    browser.until("!document.getElementById('rows').hidden")
    rows = browser.value(
        "[...document.querySelectorAll('#rows-body tr')].map(row => [...row.cells].map(cell => "
        "cell.textContent))"
    )
    assert [row[-1] for row in rows] == ["gold.broker_incidents", *["gold.isr_changes"] * 4]
    assert rows[0][:4] == [
        "offline",
        "broker 2, rack b",
        "between 12:00:00.000 and 12:00:10.100",
        "between 12:00:30.000 and 12:00:40.100",
    ]
    browser.value("document.getElementById('close').click()")
    browser.click(*place(browser, "groups", "row.lane === 'shop'"))
    browser.until("document.getElementById('rows-title').textContent.includes('gold.rebalances')")


def test_no_name_runs_and_nothing_leaves_the_page(browser: Tab, pages: Path) -> None:
    opened(browser, pages / "hostile.html")
    for figure, mark in (
        ("groups", "row.lane.startsWith('<script>')"),
        ("groups", "row.lane.startsWith('$$')"),
        ("groups", "row.lane.includes('onerror')"),
        ("isrs", "row.lane.startsWith('<script>')"),
    ):
        if browser.value(
            f"Bokeh.documents[0].get_model_by_name('{figure} rows').data.lane.some(lane => {{"
            f" const row = {{lane}}; return {mark}; }})"
        ):
            browser.click(*place(browser, figure, mark))
            browser.until("!document.getElementById('rows').hidden")
            assert browser.until(TIPS)
    assert "<script>window.harmed = 1</script>" in browser.value("document.body.textContent")
    assert browser.value(
        "window.harmed === undefined && document.querySelectorAll('body img').length === 0"
    )
    asked = [
        each["params"]["request"]["url"]
        for each in browser.events
        if each["method"] == "Network.requestWillBeSent"
    ]
    assert asked == [(pages / "hostile.html").as_uri()]
    wrong = [
        each
        for each in browser.events
        if each["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
    ]
    assert wrong == []


def test_a_notebook_shows_it_in_a_frame(browser: Tab, pages: Path, tmp_path: Path) -> None:
    framed = Report((pages / "known.html").read_text(), rows=1)
    (tmp_path / "notebook.html").write_text(
        f'<!DOCTYPE html><meta charset="utf-8">{framed._repr_html_()}'
    )
    browser.events.clear()
    browser.call("Page.navigate", url=(tmp_path / "notebook.html").as_uri())
    browser.until(
        (
            "document.querySelector('iframe')?.contentDocument?.documentElement?.dataset.ready "
            "=== 'yes'"
        ),
        60,
    )
    assert browser.value(
        "document.querySelector('iframe').contentWindow.Bokeh.documents[0].roots().length"
    ) == len(FIGURES)
    assert [
        each
        for each in browser.events
        if each["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
    ] == []


def test_on_paper_each_figure_is_a_picture_within_it(browser: Tab, pages: Path) -> None:
    opened(browser, pages / "known.html", 1920)
    assert browser.pdf().startswith(b"%PDF")
    browser.value("dispatchEvent(new Event('beforeprint'))")
    browser.until("[...document.querySelectorAll('img.print')].every(picture => picture.complete)")
    browser.resize(1040)
    browser.call("Emulation.setEmulatedMedia", media="print")
    widths = browser.value(
        "[...document.querySelectorAll('img.print')].map(each => "
        "each.getBoundingClientRect().right)"
    )
    assert len(widths) == len(FIGURES)
    assert all(900 < right <= 1040 for right in widths)
    browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.soak
def test_a_hundred_thousand_events_open(browser: Tab, tmp_path: Path) -> None:
    with large_lake() as lake:
        (tmp_path / "large.html").write_text(page_of(lake, *DAY))
    opened(browser, tmp_path / "large.html")
    # Since the start of navigation, ms: of the machine, so nothing but to be shown.
    print(browser.value("document.documentElement.dataset.readyAfter"))
