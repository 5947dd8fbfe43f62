"""Slurm's hostlist expressions: ``gpu[01-03,7],b1`` is gpu01, gpu02, gpu03, gpu7, b1."""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import Final

# More hosts than any cluster has: beyond it an expression is garbage, not a list of nodes.
MAX_HOSTS: Final = 65536
_PART: Final = re.compile(r"([^\[\],]+)|\[([^\[\]]*)\]")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def expand(expression: str) -> list[str]:
    """The host names in the order of the expression, each once; none for "" and "None assigned".

    Raises:
        ValueError: the expression is malformed or stands for more than ``MAX_HOSTS``.
    """
    if expression in {"", "None assigned", "(null)", "None"}:
        return []
    hosts: dict[str, None] = {}
    position = 0
    while position < len(expression):
        choices: list[list[str]] = []
        while position < len(expression) and expression[position] != ",":
            part = _PART.match(expression, position)
            if part is None:
                raise ValueError("malformed hostlist")
            choices.append([part[1]] if part[1] is not None else _ranges(part[2]))
            position = part.end()
        if not choices:
            raise ValueError("malformed hostlist")
        if len(hosts) + prod(map(len, choices)) > MAX_HOSTS:
            raise ValueError("too many hosts")
        hosts.update(("".join(host), None) for host in product(*choices))
        position += 1
    return list(hosts)


def _ranges(inside: str) -> list[str]:
    """``01-03,7`` → 01, 02, 03, 7; the width of the first bound is kept."""
    numbers: list[str] = []
    for piece in inside.split(","):
        bounds = _RANGE.fullmatch(piece)
        if bounds is None:
            raise ValueError("malformed hostlist")
        first, last = int(bounds[1]), int(bounds[2] or bounds[1])
        if last < first or last - first >= MAX_HOSTS:
            raise ValueError("malformed hostlist")
        numbers.extend(str(number).zfill(len(bounds[1])) for number in range(first, last + 1))
    return numbers
