"""Headless Chromium, driven by its DevTools protocol over Tornado's WebSocket client, which comes
with Bokeh.
"""

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tornado.websocket import WebSocketClientConnection, websocket_connect

from tests.support.waiting import eventually

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-port=0",
)
T = TypeVar("T")


def found() -> str | None:
    """The browser of this machine, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """A tab. `events`: what the browser said of itself, without the answers to commands."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connection: WebSocketClientConnection, session: str
    ) -> None:
        self._loop, self._connection, self._session = loop, connection, session
        self._numbers = itertools.count(100)
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._loop.run_until_complete(self._call(method, parameters))

    async def _call(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters, "sessionId": self._session}
        await self._connection.write_message(json.dumps(command))
        while True:
            message = json.loads(await asyncio.wait_for(_read(self._connection), 60))
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def value(self, script: str) -> Any:
        """What an expression of JavaScript, or its promise, gives."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str, seconds: float = 30) -> Any:
        """Wait until an expression is true."""
        return eventually(lambda: self.value(script), script, within=seconds)

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def mouse(self, type_: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=type_, x=x, y=y, **more)

    def move(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x - 3, y)
        self.mouse("mouseMoved", x, y)

    def click(self, x: float, y: float) -> None:
        self.move(x, y)
        for type_ in ("mousePressed", "mouseReleased"):
            self.mouse(type_, x, y, button="left", clickCount=1)

    def screenshot(self, file: Path) -> None:
        """The whole page as it is laid out now."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        answer = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])


async def _read(connection: WebSocketClientConnection) -> str:
    message = await connection.read_message()
    assert isinstance(message, str), "the browser is gone"
    return message


async def _attached(port: int, path: str) -> tuple[WebSocketClientConnection, str]:
    connection = await websocket_connect(
        f"ws://127.0.0.1:{port}{path}", max_message_size=200_000_000
    )

    async def call(number: int, method: str, **parameters: Any) -> dict[str, Any]:
        await connection.write_message(
            json.dumps({"id": number, "method": method, "params": parameters})
        )
        while (message := json.loads(await _read(connection))).get("id") != number:
            pass
        return message["result"]

    target = await call(1, "Target.createTarget", url="about:blank")
    attached = await call(2, "Target.attachToTarget", targetId=target["targetId"], flatten=True)
    return connection, attached["sessionId"]


@contextmanager
def tab(folder: Path, width: int = 1280, height: int = 900) -> Iterator[Tab]:
    """A tab of a browser that ends with it. `folder`: for its profile."""
    program = found()
    assert program is not None
    with (
        (folder / "chromium.log").open("wb") as log,
        subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={folder}/profile"], stdout=log, stderr=log
        ) as process,
    ):
        loop = asyncio.new_event_loop()
        try:
            port, path = _port(folder / "profile" / "DevToolsActivePort")
            connection, session = loop.run_until_complete(_attached(port, path))
            opened = Tab(loop, connection, session)
            for domain in ("Page", "Network", "Runtime", "Log"):
                opened.call(f"{domain}.enable")
            opened.resize(width, height)
            yield opened
            loop.run_until_complete(_closed(connection))
        finally:
            process.terminate()
            process.wait(30)
            loop.close()


async def _closed(connection: WebSocketClientConnection) -> None:
    # In the loop: outside, Tornado makes a loop of its own and leaves it open.
    connection.close()
    while await connection.read_message() is not None:
        pass


def _port(file: Path) -> tuple[int, str]:
    def lines() -> list[str] | None:
        found = file.read_text().splitlines() if file.exists() else []
        return found if len(found) == 2 else None

    port, path = eventually(lines, "the port of Chromium", within=30)
    return int(port), path
