"""Which partition of a coordinators' log keeps a group or a transactional id."""


def log_partition(name: str, partitions: int) -> int:
    """Utils.abs(name.hashCode()) % partitions: of a group id in __consumer_offsets, as Kafka's
    GroupCoordinatorService.partitionFor, and of a transactional id in __transaction_state, as its
    TransactionStateManager.partitionFor.

    Java's hashCode goes over UTF-16 units and wraps around at 32 bits; Utils.abs makes 0 of the
    smallest number.
    """
    units, hashed = name.encode("utf-16-be", "surrogatepass"), 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + 256 * high + low) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
