from typing import Any

def pivoted_qr(
    rows: tuple[Any, ...],
    origin: int,
    floor: int,
    noise: float,
    constant_floor: float,
    short: int,
    row_floor: int,
    longest: int,
    rule: tuple[float, ...],
    special: bool,
    pose: int,
    basis: int,
    positions: int,
    peaks: int,
    determined: int,
    several: int,
    white: tuple[int, int, float, bool],
    rest: tuple[bool, bool, float, float, float, float, int, int, int, int],
    threads: int,
    /,
) -> int: ...
def mean(rows: tuple[Any, ...], mean: int, threads: int, /) -> None: ...
