"""The pages as an ASGI application: which address is which page, as HTML and as JSON."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from kafka_metadata_history.answers.incidents.annotations import annotations as of_incidents
from kafka_metadata_history.answers.metrics.exposition import CONTENT_TYPE
from kafka_metadata_history.answers.metrics.kept import KeptMetrics
from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.answers.text import as_csv
from kafka_metadata_history.live import LiveLake
from kafka_metadata_history.web import ask, html, things, views
from kafka_metadata_history.web.access import COOKIE, HEADERS, POLICY, Guard, inside
from kafka_metadata_history.web.kept import BusyError, KeptAnswers
from kafka_metadata_history.web.openapi import openapi
from kafka_metadata_history.web.page import Asking, filters_in
from metadata_source.errors import KafkaMetadataHistoryError
from schemas.lake import LakeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from jobs.configuration.config import Config
    from kafka_metadata_history.web.access import Access
    from kafka_metadata_history.web.page import Given, Page

LIMIT_S: Final = 30.0
"""Of one question."""
LOOK_S: Final = 1.0
"""Between two looks at Delta's logs."""
_BEAT_S: Final = 20.0
"""A page that hears nothing for so long hears that the server is there."""
_LEVEL: Final = 1
"""Of gzip: it takes its time from all who are answered."""
_LONGEST_FORM: Final = 100_000
PAGES: Final[dict[str, Callable[[Asking], Page]]] = {
    "/": views.fleet,
    "/cluster": views.cluster,
    "/incident/{id}": views.incident,
    "/topic": things.topic,
    "/broker": things.broker,
    "/group": things.group,
    "/diff": things.difference,
    "/whatif": things.whatif,
}
"""Address -> page. Below /api each is JSON."""


@dataclass(frozen=True)
class Serving:
    """The things to serve. `config_file`: as SQL of a person is asked with it. `of_brokers`,
    `of_lag`: whether metrics have each broker, and the lag of groups.
    """

    config: Config
    config_file: str
    access: Access
    allow_sql: bool
    of_brokers: bool = False
    of_lag: bool = False


class Pages:
    """Answers requests about a lake, of its newest version."""

    def __init__(self, of: Serving) -> None:
        """Raise LakeError for a lake that only Spark reads."""
        self._of = of
        self.access = of.access
        self._lake = LiveLake(of.config.lake, LIMIT_S)
        self._metrics = KeptMetrics(
            self._lake, of.config, brokers=of.of_brokers, group_lag=of.of_lag
        )
        self._kept = KeptAnswers()
        self._sql = ask.OwnSql(of.config_file)
        self._of_sql = KeptAnswers(at_once=1, most_bytes=0)
        self._one_login = asyncio.Lock()
        self.version = self._lake.version()
        self._changed = asyncio.Event()
        self._is_over = False

    async def watch(self) -> None:
        """Look for new versions, and wake the pages that are open."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                newest = await run_in_threadpool(self._lake.version)
            except OSError:  # whoever asks meanwhile is answered so
                continue
            if newest != self.version:
                self.version = newest
                self._wake()

    async def read_ahead(self) -> None:
        """Read the metrics of each new version, so that no scrape waits for the lake."""
        while True:
            await self._changed.wait()
            if self._metrics.is_asked:
                with suppress(KafkaMetadataHistoryError, OSError):  # which the scrape says
                    await run_in_threadpool(self._metrics.text, datetime.now(UTC))

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def end(self) -> None:
        """Answer nothing more: who waits for changes is let go, what is asked is interrupted."""
        self._is_over = True
        self._wake()
        self._sql.end()
        self._lake.end()

    def close(self) -> None:
        """End the threads."""
        self._kept.close()
        self._of_sql.close()

    # --- one answer ---

    async def html(self, make: Callable[[Asking], Page], request: Request) -> Response:
        """Answer with a page."""
        is_open = self._of.access.token is None
        try:
            draw = partial(html.html, is_open=is_open, version=self._lake.version())
            made = await self._made(request, lambda asking: draw(make(asking)))
        except (KafkaMetadataHistoryError, OSError) as error:
            status = _status(error)
            text = html.message("This cannot be shown", str(error), self.version)
            return HTMLResponse(text, status, _retry(status))
        return HTMLResponse(made)

    async def json(self, make: Callable[[Asking], Page], request: Request) -> Response:
        """Answer with the JSON of a page."""
        return await self._json(
            request, lambda asking: json.dumps(make(asking).to_json(), allow_nan=False)
        )

    async def _json(self, request: Request, make: Callable[[Asking], str]) -> Response:
        try:
            made = await self._made(request, make)
        except (KafkaMetadataHistoryError, OSError) as error:
            return _problem(error)
        return Response(made, media_type="application/json")

    async def csv(self, name: str, request: Request) -> Response:
        """Answer a named question with CSV."""

        def made(asking: Asking) -> str:
            rows = ask.answer_in(name, asking).rows
            if len(rows) > ask.MOST:
                raise QueryError(f"{len(rows):,} rows, more than {ask.MOST:,}: narrow the question")
            return as_csv(rows)

        try:
            text = await self._made(request, made)
        except (KafkaMetadataHistoryError, OSError) as error:
            return _problem(error)
        attached = f'attachment; filename="{name}.csv"'
        return Response(text, media_type="text/csv", headers={"Content-Disposition": attached})

    async def figures(self, request: Request) -> Response:
        """Answer with the report of a window, which is a page of its own."""

        def made(asking: Asking) -> str:
            from kafka_metadata_history.report import make  # noqa: PLC0415 - takes a second

            given = asking.given
            since, until = given.get("since", ask.DAY), given.get("until")
            filters = filters_in(given, "cluster", "topic", "broker", "group")
            return make.make_report(asking.ask, since, until, filters, asking.now).html

        try:
            text = await self._made(request, made)
        except (KafkaMetadataHistoryError, OSError) as error:
            status, text_of = _status(error), html.message("This cannot be drawn", str(error))
            policy = HEADERS[POLICY].replace("frame-ancestors 'none'", "frame-ancestors 'self'")
            return HTMLResponse(text_of, status, {**_retry(status), POLICY: policy})
        # The page has a policy of its own, which allows its own script alone.
        return HTMLResponse(text, headers={POLICY: "frame-ancestors 'self'"})

    async def _made(self, request: Request, make: Callable[[Asking], str]) -> bytes:
        given = _given(request)
        now = datetime.now(UTC)
        minute = now.replace(second=0, microsecond=0)
        key = (self._lake.version(), minute, request.url.path, *sorted(given.items()))

        def made() -> bytes:
            # Opened when something is asked, and once.
            return make(Asking(cache(self._lake.now), self._of.config, given, now)).encode()

        return await self._kept.get(key, made)

    # --- other answers ---

    async def changes(self, _: Request) -> Response:
        """Answer with the name of the version now, and of each later one (server-sent events)."""

        async def events() -> AsyncIterator[str]:
            sent = None
            while not self._is_over:
                changed = self._changed
                yield f"data: {self.version}\n\n" if self.version != sent else ": there\n\n"
                sent = self.version
                try:
                    await asyncio.wait_for(changed.wait(), _BEAT_S)
                except TimeoutError:
                    continue

        return StreamingResponse(events(), media_type="text/event-stream")

    async def metrics(self, _: Request) -> Response:
        """Answer with the metrics of Kafka's state, for Prometheus."""
        try:
            text = await run_in_threadpool(self._metrics.text, datetime.now(UTC))
        except (KafkaMetadataHistoryError, OSError) as error:
            return PlainTextResponse(f"{error}\n", _status(error))
        return Response(text, media_type=CONTENT_TYPE)

    async def annotations(self, request: Request) -> Response:
        """Answer with incidents, as annotations of Grafana."""

        def made(asking: Asking) -> str:
            since, until = (_time_of(name, asking.given) for name in ("from", "to"))
            found = of_incidents(asking.ask, since, until, asking.given.get("cluster"))
            return json.dumps([asdict(each) for each in found])

        return await self._json(request, made)

    async def health(self, _: Request) -> Response:
        """Answer that the server is there. It says nothing of the lake."""
        return PlainTextResponse("ok\n")

    async def own_sql(self, request: Request) -> Response:
        """Answer SQL that a person wrote, in a process of its own."""
        if not self._of.allow_sql:
            text = "SQL is asked on loopback alone, or with --allow-sql"
            return HTMLResponse(html.message("Not allowed", text), 403)
        is_open = self._of.access.token is None

        def made(sql: str) -> bytes:
            # Without a version: nobody sends the form again for a new one.
            return html.html(self._sql.page(sql), is_open=is_open, version=None).encode()

        try:
            sql = (await _form(request)).get("sql", "")
            return HTMLResponse(await self._of_sql.get(sql, partial(made, sql)))
        except (KafkaMetadataHistoryError, OSError) as error:
            status, text = _status(error), html.message("This cannot be answered", str(error))
            return HTMLResponse(text, status, _retry(status))

    async def login(self, request: Request) -> Response:
        """Ask for the token, and give who has it a cookie."""
        access = self._of.access
        if access.token is None:
            return RedirectResponse("/", 303)
        if request.method == "GET":
            return HTMLResponse(html.login("", inside(_given(request).get("next", "/"))))
        try:
            form = await _form(request)
        except QueryError as error:
            return HTMLResponse(html.login(str(error), "/"), 400)
        next_ = inside(form.get("next", "/"))
        if not access.is_token(form.get("token", "")):
            async with self._one_login:  # for who tries one after the other
                await asyncio.sleep(1)
            return HTMLResponse(html.login("That is not the token.", next_), 401)
        answer = RedirectResponse(next_, 303)
        # Of a proxy only the browser knows whether it has TLS.
        is_https = access.is_https or request.headers.get("origin", "").startswith("https:")
        answer.set_cookie(
            COOKIE, access.cookie(), httponly=True, samesite="strict", secure=is_https
        )
        return answer

    async def logout(self, _: Request) -> Response:
        """Take the cookie back."""
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    async def question(self, request: Request) -> Response:
        """Answer with a named question."""
        name = request.path_params["name"]
        if _given(request).get("format") == "csv":
            return await self.csv(name, request)
        return await self.html(partial(ask.answer, name), request)

    async def questions(self, request: Request) -> Response:
        """Answer with all named questions."""
        return await self.html(partial(ask.questions, allow_sql=self._of.allow_sql), request)

    async def questions_json(self, request: Request) -> Response:
        """Answer with the JSON of all named questions."""
        return await self.json(partial(ask.questions, allow_sql=self._of.allow_sql), request)

    async def question_json(self, request: Request) -> Response:
        """Answer with the JSON of a named question."""
        return await self.json(partial(ask.answer, request.path_params["name"]), request)

    async def api(self, _: Request) -> Response:
        """Answer with the description of all JSON."""
        return Response(json.dumps(openapi(), indent=1), media_type="application/json")


def application(pages: Pages) -> Starlette:
    """Return the application."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(each) for each in (pages.watch(), pages.read_ahead())]
        yield
        pages.end()
        for task in tasks:
            task.cancel()
        pages.close()

    routes: list[Any] = []
    for path, make in PAGES.items():
        routes += [
            Route(path, partial(pages.html, make)),
            Route(f"/api{path}".rstrip("/"), partial(pages.json, make)),
        ]
    routes += [
        Route("/ask", pages.questions),
        Route("/ask/sql", pages.own_sql, methods=["POST"]),
        Route("/ask/{name}", pages.question),
        Route("/api/openapi.json", pages.api),
        Route("/api/ask", pages.questions_json),
        Route("/api/annotations", pages.annotations),
        Route("/api/ask/{name}", pages.question_json),
        Route("/figures", pages.figures),
        Route("/changes", pages.changes),
        Route("/healthz", pages.health),
        Route("/metrics", pages.metrics),
        Route("/login", pages.login, methods=["GET", "POST"]),
        Route("/logout", pages.logout, methods=["POST"]),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Guard, access=pages.access),
            Middleware(GZipMiddleware, 1_000, _LEVEL),
        ],
        exception_handlers={404: _not_found},
        lifespan=lifespan,
    )


async def _not_found(request: Request, _: Exception) -> Response:
    text = f"{request.url.path}: there is no such page"
    if request.url.path.startswith("/api/"):
        return Response(json.dumps({"error": text}), 404, media_type="application/json")
    return HTMLResponse(html.message("Not found", text), 404)


def _given(request: Request) -> Given:
    """The parameters of an address and its path, without empty ones."""
    found = {name: value for name, value in request.query_params.items() if value.strip()}
    return found | {name: str(value) for name, value in request.path_params.items() if name == "id"}


def _time_of(name: str, given: Given) -> datetime:
    """A time that an address gives in ms since 1970, as Grafana does."""
    try:
        return datetime.fromtimestamp(int(given[name]) / 1000, UTC)
    except (KeyError, ValueError, OverflowError, OSError):
        raise QueryError(f"{name}={given.get(name, '')}: not ms since 1970") from None


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form that was sent, as a browser does."""
    body = b""
    async for some in request.stream():
        body += some
        if len(body) > _LONGEST_FORM:
            raise QueryError(f"the form has more than {_LONGEST_FORM:,} bytes")
    text = body.decode("utf-8", errors="replace")
    return {name: values[0] for name, values in parse_qs(text).items()}


def _status(error: Exception) -> int:
    if isinstance(error, QueryError):
        return 400
    return 503 if isinstance(error, BusyError | LakeError | OSError) else 500


def _retry(status: int) -> dict[str, str]:
    return {"Retry-After": "2"} if status == 503 else {}


def _problem(error: Exception) -> Response:
    status = _status(error)
    text = json.dumps({"error": str(error)})
    return Response(text, status, _retry(status), media_type="application/json")
