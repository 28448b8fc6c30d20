def carry(
    rows: int,
    rows_double: bool,
    result: int,
    result_double: bool,
    matrix: int,
    sums: int,
    entry: int,
    owner: int,
    count: int,
    number_of_rows: int,
    number_of_matrices: int,
    channels: int,
    d: int,
    /,
) -> None: ...

back = carry
outer = carry
