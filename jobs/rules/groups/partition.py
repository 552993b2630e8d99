"""Which partition of __consumer_offsets keeps a group."""


def log_partition(group_id: str, partitions: int) -> int:
    """Utils.abs(groupId.hashCode()) % partitions, as Kafka's GroupCoordinatorService.partitionFor.

    Java's hashCode goes over UTF-16 units and wraps around at 32 bits; Utils.abs makes 0 of the
    smallest number.
    """
    units, hashed = group_id.encode("utf-16-be", "surrogatepass"), 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + 256 * high + low) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed & 0x80000000 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
