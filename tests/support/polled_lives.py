"""Random lives of groups as polls saw them: rows of silver.group_snapshots."""

import copy

from hypothesis import strategies as st

from tests.support.group_states import GONE, ORDERS, Row, classic, consumer, member, poll, states

_MEMBERS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)


@st.composite
def polled_lives(draw: st.DrawFn) -> list[Row]:
    """A group's rows over a random life: it rebalances, empties, is converted, deleted, made again,
    may not be described, or could not be when it was first listed.
    """
    seen: list[tuple[int, Row | None]] = []
    number = draw(st.integers(0, 1))
    epoch = 0
    for _ in range(draw(st.integers(1, 12))):
        ids = draw(_MEMBERS)
        kind = draw(
            st.sampled_from(["consumer", "consumer", "classic", "hidden", "gone", "failed"])
        )
        if kind == "gone":
            state = GONE
        elif kind == "failed":
            # Later on it leaves the state that is known.
            if seen and seen[-1][1] is not GONE:
                continue
            state = {}
        elif kind == "hidden":
            state = {"group_type": "consumer", "state": "Stable", "members": None}
        elif kind == "classic":
            phase = (
                draw(st.sampled_from(["Stable", "PreparingRebalance", "CompletingRebalance"]))
                if ids
                else "Empty"
            )
            state = classic(
                phase,
                *(
                    member(i, {"orders": [ord(i)]} if phase == "Stable" else None, instance_id=i)
                    for i in ids
                ),
            )
        else:
            epoch += draw(st.integers(0, 2))
            at_epoch = [
                member(
                    draw(st.sampled_from([i, f"{i}-2"])),
                    {ORDERS: [ord(i)]},
                    epoch=draw(st.sampled_from([epoch, epoch, -2, epoch - 1])),
                    target={ORDERS: [ord(i)]},
                    instance_id=i,
                )
                for i in ids
            ]
            settled = all(each["epoch"] == epoch for each in at_epoch)
            state = consumer(
                "Empty" if not ids else "Stable" if settled else "Reconciling",
                epoch,
                epoch,
                *at_epoch,
            )
        if (seen and seen[-1][1] == state) or (state is GONE and (not seen or seen[-1][1] is GONE)):
            continue
        seen.append((number, state))
        number += draw(st.integers(1, 3))
    return states(*seen)


def known_at(rows: list[Row], number: int) -> list[Row]:
    """Silver as it was at a poll."""
    known = copy.deepcopy([row for row in rows if row["first_poll"] <= poll(number)])
    for row in known:
        if row["superseded_poll"] and row["superseded_poll"] > poll(number):
            row.update(
                dict.fromkeys(("superseded_poll", "valid_to", "last_seen_sent_at", "end_reason"))
            )
    return known
