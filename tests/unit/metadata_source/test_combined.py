"""Record batches put together."""

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from metadata_source import combined
from metadata_source.combined import groups


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12))
def test_rows_keep_their_order_in_as_few_batches_as_may_be(sizes, most):
    batches = [
        pa.record_batch({"n": pa.array(range(100 * place, 100 * place + size), pa.int64())})
        for place, size in enumerate(sizes)
    ]
    for rows, size in ((most, 1 << 20), (1 << 20, 8 * most)):
        patched = {"BATCH_ROWS": rows, "BATCH_BYTES": size}
        usual = {name: getattr(combined, name) for name in patched}
        vars(combined).update(patched)
        try:
            found, grouped = list(combined.combined(batches)), list(groups(batches))
        finally:
            vars(combined).update(usual)
        assert [n for each in found for n in each["n"].to_pylist()] == [
            n for each in batches for n in each["n"].to_pylist()
        ]
        counts = [[each.num_rows for each in group] for group in grouped]
        assert all(sum(count) <= most or len(count) == 1 for count in counts)
        for before, after in pairwise(counts):
            assert sum(before) + after[0] > most
