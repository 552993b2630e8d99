"""Changes of bytes, at random: some are taken out, others are put in."""

from hypothesis import strategies as st

mutations = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 4),
        st.sampled_from(
            [b"", b"\0", b"\xff", b"\x80", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"]
        )
        | st.binary(max_size=4),
    ),
    min_size=1,
    max_size=3,
)


def mutated(data: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for where, gone, put in changes:
        at = int(where * (len(data) + 1))
        data = data[:at] + put + data[at + gone :]
    return data
