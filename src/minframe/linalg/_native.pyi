from collections.abc import Sequence

def pivoted_qr(
    values: int,
    d: int,
    samples: int,
    n: int,
    floor: int,
    constant_floor: float,
    short: int,
    row_floor: int,
    rule: Sequence[float],
    special: bool,
    scratch: int,
    chosen: int,
    peaks: int,
    determined: int,
    several: int,
    /,
) -> int: ...
def planes(rows: int, origin: int, mask: int, samples: int, n: int, d: int, values: int, /) -> None: ...
def mean(rows: int, mask: int, samples: int, n: int, d: int, mean: int, /) -> None: ...
