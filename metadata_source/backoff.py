"""How long something that failed is left alone."""


def backoff_s(first: float, failed: int, most: float) -> float:
    """Seconds after `failed` failures in a row: `first`, then twice as long each, up to `most`."""
    return min(first * 2.0 ** min(failed - 1, 10), most)
