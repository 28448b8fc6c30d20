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
    results: int,
    again: bool,
    /,
) -> int: ...
def label_sparse(
    count: int,
    n: int,
    e: int,
    colours: int,
    edge_index: int,
    edges: int,
    batch: int,
    rounds: int,
    order: Ask,
    generators: Ask | None,
    nodes: int,
    listed: int,
    again: bool,
    /,
) -> int: ...
