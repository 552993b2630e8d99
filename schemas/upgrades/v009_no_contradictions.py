"""Version 9: nothing is guessed of a cluster that may be of another maker than was declared."""

import json

from schemas.upgrades.step import Step


def state(history: str, memory: str | None) -> str | None:
    """The memory of a row of internal.states."""
    if memory is None or history != "silver":
        return memory
    value = json.loads(memory)
    value.pop("suspected", None)
    return json.dumps(value, separators=(",", ":"))


STEP = Step(
    version=9,
    rows={
        "internal.states": (
            "SELECT * EXCEPT (memory), v9_state(history, memory) AS memory FROM {rows}",
        ),
    },
    functions={"v9_state": state},
)
