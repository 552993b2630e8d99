"""librdkafka's mock cluster, which is in confluent-kafka's wheel: a server that is not Kafka,
without a JVM.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka

_PRODUCER = 0
_METADATA = 3


def _library() -> ctypes.CDLL:
    """The library that the wheel brings: beside the package on Linux, in it on macOS."""
    package = Path(confluent_kafka.__file__).parent
    places = (package.with_name("confluent_kafka.libs"), package / ".dylibs")
    (found,) = (file for place in places if place.is_dir() for file in place.glob("librdkafka*"))
    library = ctypes.CDLL(str(found))
    for name, result, arguments in (
        ("rd_kafka_conf_new", ctypes.c_void_p, ()),
        (
            "rd_kafka_conf_set",
            ctypes.c_int,
            (ctypes.c_void_p, *[ctypes.c_char_p] * 3, ctypes.c_size_t),
        ),
        (
            "rd_kafka_new",
            ctypes.c_void_p,
            (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t),
        ),
        ("rd_kafka_destroy", None, (ctypes.c_void_p,)),
        ("rd_kafka_mock_cluster_new", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int)),
        ("rd_kafka_mock_cluster_destroy", None, (ctypes.c_void_p,)),
        ("rd_kafka_mock_cluster_bootstraps", ctypes.c_char_p, (ctypes.c_void_p,)),
        (
            "rd_kafka_mock_topic_create",
            ctypes.c_int,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int),
        ),
        ("rd_kafka_mock_set_apiversion", ctypes.c_int, (ctypes.c_void_p, *[ctypes.c_int16] * 3)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@contextmanager
def mock_cluster(topics: dict[str, int], *, last_metadata: int | None = None) -> Iterator[str]:
    """Run three brokers with these topics (name -> partitions); yields their bootstrap servers.
    `last_metadata`: the newest version of Metadata that they have.
    """
    library, text = _library(), ctypes.create_string_buffer(512)
    settings = library.rd_kafka_conf_new()
    assert library.rd_kafka_conf_set(settings, b"log_level", b"0", text, len(text)) == 0, text.value
    client = library.rd_kafka_new(_PRODUCER, settings, text, len(text))
    assert client, text.value
    cluster = library.rd_kafka_mock_cluster_new(client, 3)
    try:
        for name, partitions in topics.items():
            assert library.rd_kafka_mock_topic_create(cluster, name.encode(), partitions, 3) == 0
        if last_metadata is not None:
            assert library.rd_kafka_mock_set_apiversion(cluster, _METADATA, 0, last_metadata) == 0
        yield library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)
