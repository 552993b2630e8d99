import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.recorder.offsets import Offset, Span
from metadata_source.recorder.spool import SpoolError

numbers = st.integers(-1, 10**12)
texts = st.text(max_size=5)
offsets = st.builds(
    Offset,
    stream=st.none() | texts,
    session=st.none() | texts,
    seq=numbers,
    from_ms=st.none() | numbers,
    to_ms=st.none() | numbers,
    clusters=st.dictionaries(texts, st.builds(Span, numbers, numbers, numbers), max_size=3),
    after=st.none() | numbers,
    waits=st.dictionaries(texts, st.sampled_from(["lost", "handed_over", "clock"]), max_size=2),
    doubted=st.none() | st.tuples(st.floats(0, 1e10), st.floats(0, 1e10)),
)


@given(offsets)
def test_offsets_survive_the_checkpoint(offset):
    assert Offset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_an_offset_says_which_polls_of_each_cluster_its_batch_has():
    offset = Offset("s", "a", 7, 1_000, 2_000, {"east": Span(3, 5, 9)})
    fixed = {"after", "waits", "doubted"}
    assert {name: value for name, value in offset.to_json().items() if name not in fixed} == {
        "version": 3, "stream": "s", "session": "a", "seq": 7, "from": 1_000, "to": 2_000,
        "clusters": {"east": [3, 5, 9]},
    }  # fmt: skip


OLDER = {
    "version": 2, "stream": "20261121T010405Z-00000000", "first": 3, "next": 4, "scheduled_ms": 1,
    "due_ms": 2, "since_ms": 1, "before_ms": None, "options": {},
}  # fmt: skip


@pytest.mark.parametrize("foreign", [{}, OLDER, {"version": 3}, {**Offset().to_json(), "more": 1}])
def test_another_offset_is_refused_in_one_line(foreign):
    version = foreign.get("version")
    with pytest.raises(SpoolError) as refused:
        Offset.from_json(foreign)
    assert str(refused.value) == (
        f"[KAFKA_METADATA_SPOOL] the checkpoint holds an offset of version {version!r}, and this "
        "is version 3: remove the checkpoint of this query (of the jobs: "
        "CHECKPOINTS/poll_metadata), and a new stream begins"
    )
