"""A session of Spark in which Hadoop's S3A answers as it is said to, without a JVM."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JJavaError

REPLACES = ""
"""The answer to the second of two puts of a store that knows no conditions."""
NO_ANSWER = "java.net.ConnectException: Connection refused"

_NONE: Mapping[str, str] = {}


class Session:
    """As far as a lake on S3 asks it. `says`: Java's error at the second of two objects that are
    both to be new, or REPLACES. `hadoop`: what it was given.
    """

    def __init__(self, says: str = REPLACES, conf: Mapping[str, str] = _NONE, **has: bool) -> None:
        self.conf = _Settings(conf)
        self.hadoop: dict[str, str] = {}
        self.closed = 0
        self.deleted: list[str] = []
        self._says, self._has = says, has
        fs = SimpleNamespace(
            Path=lambda name: SimpleNamespace(getFileSystem=lambda _: self, n=name)
        )
        utils = SimpleNamespace(classIsLoadable=lambda name: has.get(name.split(".")[-1], False))
        util = SimpleNamespace(Utils=utils)
        self._jvm = SimpleNamespace(
            org=SimpleNamespace(
                apache=SimpleNamespace(
                    hadoop=SimpleNamespace(fs=fs), spark=SimpleNamespace(util=util)
                )
            )
        )
        configuration = SimpleNamespace(set=self.hadoop.__setitem__)
        self._jsc = SimpleNamespace(hadoopConfiguration=lambda: configuration)

    def create(self, path: Any, overwrite: bool) -> Any:
        """Begin an object that is to be new."""
        assert not overwrite
        return SimpleNamespace(close=self._close, path=path)

    def delete(self, path: Any, recursive: bool) -> None:
        """Note which one."""
        assert not recursive
        self.deleted.append(path.n)

    def _close(self) -> None:
        self.closed += 1
        if self.closed % 2 == 0 and self._says:
            error = SimpleNamespace(_target_id="o1", toString=lambda: self._says)
            raise Py4JJavaError("", error)


class _Settings(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value
