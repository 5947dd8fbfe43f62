"""XOR chunks written and read bit by bit, as tsdb/chunkenc/xor.go describes them: slow, and easy to believe."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Sample = tuple[int, float]

SPACINGS = ((14, "10"), (17, "110"), (20, "1110"))


def bits_of(value: float) -> int:
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    return int(bits)


def value_of(bits: int) -> float:
    (value,) = struct.unpack(">d", struct.pack(">Q", bits))
    return float(value)


def encode(samples: Sequence[Sample]) -> bytes:
    """One chunk of samples with rising times."""
    text = f"{len(samples):016b}"
    before = (0, 0)  # time, spacing
    bits, leading, trailing = 0, None, 0
    for number, (time, value) in enumerate(samples):
        spacing = time - before[0]
        if number == 0:
            text += varint(time << 1 if time >= 0 else (-time << 1) - 1) + f"{bits_of(value):064b}"
            bits, before = bits_of(value), (time, 0)
            continue
        text += varint(spacing) if number == 1 else change_of_spacing(spacing - before[1])
        before = (time, spacing)
        differing, bits = bits ^ bits_of(value), bits_of(value)
        if not differing:
            text += "0"
            continue
        zeros = min(64 - differing.bit_length(), 31)
        ends = (differing & -differing).bit_length() - 1
        if leading is not None and zeros >= leading and ends >= trailing:
            text += "10" + f"{differing >> trailing:0{64 - leading - trailing}b}"
        else:
            leading, trailing = zeros, ends
            significant = 64 - zeros - ends
            text += f"11{zeros:05b}{significant % 64:06b}" + f"{differing >> ends:0{significant}b}"
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8)


def varint(number: int) -> str:
    text = ""
    while number > 127:
        text += f"{number & 127 | 128:08b}"
        number >>= 7
    return text + f"{number:08b}"


def change_of_spacing(change: int) -> str:
    if change == 0:
        return "0"
    for size, prefix in SPACINGS:
        if -(1 << size - 1) + 1 <= change <= 1 << size - 1:
            return prefix + f"{change % (1 << size):0{size}b}"
    return "1111" + f"{change % (1 << 64):064b}"


class Bits:
    """Bits, taken from the front."""

    def __init__(self, chunk: bytes) -> None:
        self.text = f"{int.from_bytes(chunk):0{8 * len(chunk)}b}"

    def take(self, count: int) -> int:
        taken, self.text = self.text[:count], self.text[count:]
        return int(taken, 2)

    def varint(self) -> int:
        number, shift = 0, 0
        while True:
            byte = self.take(8)
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7


def decode(chunk: bytes) -> list[Sample]:
    """The samples of one chunk."""
    bits = Bits(chunk)
    samples: list[Sample] = []
    time = spacing = value = leading = significant = 0
    for number in range(bits.take(16)):
        if number == 0:
            raw = bits.varint()
            time, value = raw >> 1 if raw % 2 == 0 else -(raw + 1 >> 1), bits.take(64)
            samples.append((time, value_of(value)))
            continue
        if number == 1:
            spacing = bits.varint()
        else:
            ones = 0
            while ones < 4 and bits.take(1):
                ones += 1
            size = (0, 14, 17, 20, 64)[ones]
            change = bits.take(size) if size else 0
            spacing += change - (1 << size) if size and change > 1 << size - 1 else change
        time += spacing
        if bits.take(1):
            if bits.take(1):
                leading, significant = bits.take(5), bits.take(6) or 64
            value ^= bits.take(significant) << 64 - leading - significant
        samples.append((time, value_of(value)))
    return samples
