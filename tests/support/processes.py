"""Which process of a run takes which tests next."""

from typing import Any

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class OneWithoutSpark(LoadGroupScheduling):
    """The last of three processes or more takes no tests that need Spark.

    Two wait for brokers often enough to leave it a third of two cores. A third session of Spark
    would take minutes of them to load its classes and compile them once more. Spark's tests are
    taken first by the others. `without`: how the names of groups end that need no Spark.
    """

    def __init__(self, *args: Any, without: str) -> None:
        super().__init__(*args)
        self._without = without

    def _next_of(self, node: WorkerController) -> str | None:
        """The group that a process takes next; None where the others are to take all that is
        left.
        """
        is_without = self.numnodes > 2 and node.gateway.id == f"gw{self.numnodes - 1}"
        own = (scope for scope in self.workqueue if scope.endswith(self._without) == is_without)
        return next(own, None if is_without else next(iter(self.workqueue), None))

    def _assign_work_unit(self, node: WorkerController) -> None:
        if (scope := self._next_of(node)) is not None:
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if self._next_of(node) is None and not node.shutting_down:
            node.shutdown()  # when it has done all that it has
        super()._reschedule(node)
