"""The error of a local cluster."""


class LocalClusterError(RuntimeError):
    """Raised when a cluster cannot be started, or cannot do what is asked.

    The first line is the whole message; the end of a broker's log follows where there is one.
    """
