from collections.abc import Callable

Ask = Callable[[bytes, bytes, int], object]

def label_dense(
    count: int,
    n: int,
    colours: int,
    edges: int,
    mask: int,
    order: Ask,
    generators: Ask | None,
    result: int,
    cells: int,
    orbits: int,
    /,
) -> None: ...
def label_sparse(
    count: int,
    n: int,
    e: int,
    colours: int,
    source: int,
    target: int,
    edges: int,
    batch: int,
    rounds: int,
    order: Ask,
    generators: Ask | None,
    result: int,
    cells: int,
    orbits: int,
    /,
) -> bool: ...
