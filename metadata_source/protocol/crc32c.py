"""CRC-32C (Castagnoli) of many pieces of bytes side by side: no library among the dependencies has it in compiled code.

A piece is cut into blocks of one size, the first filled up with zeros in front, which a CRC that begins at zero does
not see. A step takes two bytes of all blocks. Then blocks of a piece are joined in pairs: a CRC is linear, so the left
one is moved on by as many zero bytes as the right one has, and they are added.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from metadata_source.protocol.vectors import view

if TYPE_CHECKING:
    from metadata_source.protocol.vectors import Bytes, Positions

    States = npt.NDArray[np.uint32]

_POLYNOMIAL: Final = 0x82F63B78
_BLOCK: Final = 64
_AT_ONCE: Final = 1 << 22
"""Bytes whose pieces are looked at together: some copies are made of them."""
_INVERTED: Final = 4
"""Bytes at the beginning of a piece that are inverted, in place of a CRC that begins with all bits set."""
_FILLED: Final = np.triu(np.full((_BLOCK, _BLOCK), 0xFF, dtype=np.uint8)).view(np.uint64)
"""The bits of a block that stay, by how many bytes in front are to be zeros."""


def crc32c(data: bytes | Bytes, begins: Positions, ends: Positions) -> States:
    """Return the CRC of each piece of the data; pieces ascend, have four bytes at least and do not overlap."""
    found = [np.empty(0, dtype=np.uint32)]
    whole = np.frombuffer(data, dtype=np.uint8)
    first = 0
    while first < len(ends):
        start = int(begins[first])
        after = max(first + 1, int(np.searchsorted(ends, start + _AT_ONCE, "right")))
        piece = whole[start : ends[after - 1]]
        found.append(_of_pieces(piece, begins[first:after] - start, ends[first:after] - start))
        first = after
    return np.concatenate(found)


def _of_pieces(data: Bytes, begins: Positions, ends: Positions) -> States:
    padded = np.zeros(_BLOCK + len(data), dtype=np.uint8)
    padded[_BLOCK:] = data
    padded[(begins + _BLOCK)[:, None] + np.arange(_INVERTED)] ^= 0xFF
    counts = -(-(ends - begins) // _BLOCK)
    last = np.cumsum(counts)
    at = np.repeat(ends + _BLOCK * (1 - last), counts) + np.arange(0, _BLOCK * int(counts.sum()), _BLOCK)
    blocks = view(padded, f"V{_BLOCK}")[at].view(np.uint64).reshape(-1, _BLOCK // 8)
    blocks[last - counts] &= _FILLED[_BLOCK * counts - (ends - begins)]
    return ~_joined(_of_blocks(blocks), counts)


def _of_blocks(blocks: npt.NDArray[np.uint64]) -> States:
    steps = np.ascontiguousarray(blocks.view("<u2").T)
    table = _two_bytes()
    states = np.zeros(len(blocks), dtype=np.uint32)
    for step in steps:
        states = table[(states & 0xFFFF) ^ step] ^ (states >> 16)
    return states


def _joined(states: States, counts: Positions) -> States:
    level = 0
    while (counts > 1).any():
        odd = counts % 2 == 1
        states = np.insert(states, (np.cumsum(counts) - counts)[odd], 0)
        counts = (counts + 1) // 2
        left, right = states[0::2], states[1::2]
        states = _through(_moved_on(level), left) ^ right
        level += 1
    return states


def _through(tables: States, states: States) -> States:
    """Return what a linear map, as a table for each of the four bytes, makes of states."""
    moved: States = tables[0][states & 0xFF]
    for byte in (1, 2, 3):
        moved ^= tables[byte][states >> 8 * byte & 0xFF]
    return moved


@cache
def _moved_on(level: int) -> States:
    """Return the map by which 2 ** `level` blocks of zeros change a state."""
    if level:
        half = _moved_on(level - 1)
        return _through(half, half.reshape(-1)).reshape(4, 256)
    states = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    for _ in range(_BLOCK):
        states = _one_byte()[states & 0xFF] ^ (states >> 8)
    return states


@cache
def _two_bytes() -> States:
    states = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(2):
        states = _one_byte()[states & 0xFF] ^ (states >> 8)
    return states


@cache
def _one_byte() -> States:
    states = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        states = np.where(states & 1, states >> 1 ^ _POLYNOMIAL, states >> 1).astype(np.uint32)
    return states
