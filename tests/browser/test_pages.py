"""The pages of `serve` in a real browser, headless Chromium. Without one they are not tried."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pytest

from schemas import gold
from schemas.lake import Lake
from tests.support import chromium, stored
from tests.support.chromium import Tab, tab
from tests.support.incident import at
from tests.support.incident_rows import OPEN
from tests.support.programs import Program
from tests.support.web_lakes import config_of, web_lake, web_rows

pytestmark = pytest.mark.skipif(
    chromium.found() is None, reason=f"no Chromium here: none of {chromium.NAMES}"
)

READY = "document.documentElement?.dataset.ready === 'yes'"
PAGES = (
    "/",
    "/cluster?cluster=prod",
    "/cluster?cluster=prod&at=2026-11-01T12:00:35Z",
    f"/incident/{OPEN}",
    "/topic?cluster=prod&topic=orders",
    "/broker?cluster=prod&broker=2",
    "/group?cluster=prod&group=billing",
    "/diff?cluster=prod&from=2026-11-01T12:00:05Z&to=2026-11-01T12:00:45Z",
    "/whatif?cluster=prod&lose=2",
    "/ask",
    "/ask/timeline?since=2026-11-01T12:00:00Z&until=2026-11-01T12:02:00Z",
)


class Served(NamedTuple):
    address: str
    lake: Lake


TOKEN = "a-token-of-the-tests"  # noqa: S105 - of a server on loopback


@contextmanager
def serving(folder: Path, lake: Lake, *options: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "kafka_metadata_history", "serve", "--port", "0"]
    command += ["--config", config_of(folder, lake), *options]
    with Program(command, folder / "log", variables={**os.environ, "TOKEN": TOKEN}) as program:
        program.until(program.log, "the address", within=60)
        yield Served(program.log().split()[0], lake)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("web")
    with serving(folder, web_lake(folder / "lake")) as made:
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with tab(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def opened(browser: Tab, served: Served, path: str, width: int = 1440) -> None:
    browser.events.clear()
    browser.resize(width)
    browser.call("Page.navigate", url=f"{served.address}{path}")
    browser.until(READY, 60)


def of(browser: Tab, method: str) -> list[dict[str, Any]]:
    return [each["params"] for each in browser.events if each["method"] == method]


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_asks_nobody_else_and_has_no_error(
    browser: Tab, served: Served, path: str, width: int, tmp_path: Path
) -> None:
    opened(browser, served, path, width)
    assert browser.value("document.querySelector('h1').textContent")
    assert browser.value("document.documentElement.scrollWidth") == width
    urls = [each["request"]["url"] for each in of(browser, "Network.requestWillBeSent")]
    assert urls
    assert all(url.startswith((served.address, "data:")) for url in urls), urls
    assert not of(browser, "Runtime.exceptionThrown")
    assert not [each for each in of(browser, "Log.entryAdded") if each["entry"]["level"] == "error"]
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_on_its_background(browser: Tab, served: Served, scheme: str) -> None:
    """WCAG's contrast of text, 4.5, of all that pages have colours for."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=features)
    try:
        opened(browser, served, "/cluster?cluster=prod&at=2026-11-01T12:00:35Z")
        contrasts = browser.value(
            """(() => {
              const light = (colour) => {
                const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((each) => {
                  const part = each / 255;
                  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
              };
              const paper = light(getComputedStyle(document.body).backgroundColor);
              return [...document.querySelectorAll("a, .mark, .line, .about, th, td, h2, label")]
                .map((each) => {
                  const ink = light(getComputedStyle(each).color);
                  const [high, low] = ink > paper ? [ink, paper] : [paper, ink];
                  return [(high + 0.05) / (low + 0.05), each.textContent];
                });
            })()"""
        )
        assert {text for _, text in contrasts} >= {"2", "offline"}
        assert min(contrasts)[0] >= 4.5
        is_dark = browser.value("getComputedStyle(document.body).backgroundColor") != (
            "rgb(255, 255, 255)"
        )
        assert is_dark == (scheme == "dark")
    finally:
        browser.call("Emulation.setEmulatedMedia", features=[])


def test_no_level_is_told_by_its_colour_alone(browser: Tab, served: Served) -> None:
    opened(browser, served, "/cluster?cluster=prod&at=2026-11-01T12:00:35Z")
    signs = browser.value(
        "[...document.querySelectorAll('#partitions .mark')].map((each) => "
        "[each.textContent.trim(), getComputedStyle(each, '::before').content])"
    )
    assert ["offline", '"■ "'] in signs
    assert len({sign for _, sign in signs}) == len({text for text, _ in signs}) > 1


STATES = "[...document.querySelectorAll('#brokers .mark')].map((each) => each.textContent.trim())"


def key(browser: Tab, name: str, code: int) -> None:
    for type_ in ("rawKeyDown", "keyUp"):
        browser.call(
            "Input.dispatchKeyEvent", type=type_, key=name, code=name, windowsVirtualKeyCode=code
        )


def test_the_slider_steps_on_events_by_keys_and_its_time_is_in_the_address(
    browser: Tab, served: Served
) -> None:
    opened(browser, served, "/cluster?cluster=prod")
    assert "not_listed" not in browser.value(STATES)
    browser.value("document.querySelector('[type=range]').focus()")
    key(browser, "Home", 36)
    browser.until("location.search.includes('at=2026-11-01T12%3A00%3A00.1')")
    for _ in range(60):
        if "not_listed" in browser.value(STATES):
            break
        before = browser.value("location.href")
        key(browser, "ArrowRight", 39)
        browser.until(f"location.href !== '{before}'")
        browser.until("document.documentElement.dataset.shown === location.href")
    assert "not_listed" in browser.value(STATES)
    assert browser.value("document.activeElement.type") == "range"
    address = browser.value("location.href").removeprefix(served.address)
    opened(browser, served, address)
    assert "not_listed" in browser.value(STATES)
    time = browser.value("document.querySelector('[name=at]').value")
    assert time in unquote(address)


def test_links_lead_to_an_incident_and_its_figures_are_drawn(browser: Tab, served: Served) -> None:
    opened(browser, served, "/")
    browser.value("document.documentElement.dataset.ready = 'no'")
    browser.value(f"document.querySelector('#open a[href^=\"/incident/{OPEN}\"]').click()")
    browser.until(f"location.pathname === '/incident/{OPEN}' && {READY}")
    browser.value("document.querySelector('iframe').scrollIntoView()")
    drawn = "document.querySelector('iframe').contentDocument?.documentElement?.dataset.ready"
    browser.until(f"{drawn} === 'yes'", 60)
    browser.until("document.querySelector('iframe').offsetHeight > 1200")
    inside = "document.querySelector('iframe').contentDocument.documentElement"
    assert browser.value(f"{inside}.scrollHeight <= document.querySelector('iframe').offsetHeight")
    assert not of(browser, "Runtime.exceptionThrown")


def test_a_page_shows_a_commit_keeps_its_place_and_what_is_being_typed(
    browser: Tab, served: Served
) -> None:
    path = "/ask/timeline?since=2026-11-01T11:00:00Z&until=2026-11-01T12:02:00Z"
    opened(browser, served, path)
    browser.value("document.querySelector('#question [name=topic]').value = 'half'")
    browser.value("document.querySelector('#question [name=topic]').focus({preventScroll: true})")
    browser.value("scrollTo(0, 500)")
    assert browser.value("scrollY") == 500
    assert not browser.value("document.querySelector('#rows').textContent.includes('brand-new')")
    row = web_rows()[gold.LEADER_CHANGES][0] | {"topic": "brand-new", "changed_before": at(100)}
    stored.append(served.lake, gold.LEADER_CHANGES, [row])
    browser.until("document.querySelector('#rows').textContent.includes('brand-new')")
    assert browser.value("scrollY") == 500
    assert browser.value("document.querySelector('#question [name=topic]').value") == "half"


def filled(browser: Tab, selector: str, text: str) -> None:
    """Fill in a field, and send its form."""
    field = f"document.querySelector({selector!r})"
    browser.value(f"{field}.value = {text!r}; {field}.form.querySelector('button').click()")


def test_a_person_asks_sql_by_a_form(browser: Tab, served: Served) -> None:
    opened(browser, served, "/ask")
    filled(browser, "[name=sql]", "SELECT count(*) AS n FROM silver.broker_snapshots")
    browser.until("document.querySelector('#rows td') !== null")
    assert browser.value("location.pathname") == "/ask/sql"
    assert "/changes" not in " ".join(
        each["request"]["url"] for each in of(browser, "Network.requestWillBeSent")[-3:]
    )


def test_a_person_logs_in_and_out(browser: Tab, served: Served, tmp_path: Path) -> None:
    with serving(tmp_path, served.lake, "--token", "env:TOKEN") as guarded:
        opened(browser, guarded, "/whatif?cluster=prod")
        browser.until("location.pathname === '/login'")
        filled(browser, "[name=token]", "a-token-of-nobody")
        browser.until("document.querySelector('[role=alert]') !== null")
        filled(browser, "[name=token]", TOKEN)
        browser.until("location.pathname + location.search === '/whatif?cluster=prod'")
        browser.until("document.querySelector('nav form button') !== null")
        browser.value("document.querySelector('nav form button').click()")
        browser.until("location.pathname === '/login'")
        opened(browser, guarded, "/")
        assert browser.value("location.pathname") == "/login"


def test_a_person_without_a_script_steps_and_asks_by_forms(browser: Tab, served: Served) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.navigate", url=f"{served.address}/cluster?cluster=prod")
        browser.until("document.querySelector('form.slider button') !== null")
        browser.value(
            "document.querySelector('[name=at]').value = '2026-11-01T12:00:35Z'; "
            "document.querySelector('form.slider button').click()"
        )
        browser.until("location.search.includes('at=2026-11-01T12')")
        browser.until(f"{STATES}.includes('not_listed')")
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
