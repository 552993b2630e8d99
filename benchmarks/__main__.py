"""``python -m benchmarks [--quick]``: every benchmark, one after the other."""

from benchmarks import decode, memory, poll

if __name__ == "__main__":
    decode.main()
    print()
    poll.main()
    print()
    memory.main()
