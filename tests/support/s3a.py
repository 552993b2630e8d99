"""A session of Spark as far as a lake on S3 asks it, without a JVM."""

from collections.abc import Mapping
from types import SimpleNamespace

_NONE: Mapping[str, str] = {}


class Session:
    """A session that was started with these settings. `hadoop`: what it was given since."""

    def __init__(self, conf: Mapping[str, str] = _NONE) -> None:
        self.conf = dict(conf)
        self.hadoop: dict[str, str] = {}
        configuration = SimpleNamespace(set=self.hadoop.__setitem__)
        self._jvm = SimpleNamespace()
        self._jsc = SimpleNamespace(hadoopConfiguration=lambda: configuration)
