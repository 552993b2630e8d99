"""``python -m benchmarks [--quick]``: every benchmark, one after the other."""

from benchmarks import decode, group_log, increment, memory, poll

if __name__ == "__main__":
    decode.main()
    print()
    poll.main()
    print()
    memory.main()
    print()
    increment.main()
    print()
    group_log.main()
