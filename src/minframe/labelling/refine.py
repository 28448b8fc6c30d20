"""Colour refinement (the one-dimensional Weisfeiler-Leman algorithm) for a whole batch of graphs at once.

Every round gives two nodes different colours if they had, or if they see different numbers of nodes of some colour
through edges of some colour. It ends when nothing splits: the partition is then *equitable*. Of a generic graph or
cloud, two or three rounds leave only classes of a single node.

**Numbering.** The colour of a node is the number of nodes of its sample that come before its class, so that colours
``0, ..., n-1`` say that all are told apart, and ``argsort`` of the colours is then the canonical order. Classes are
ordered by the colours the caller gives, then by those of self-loops, then by the rounds, each splitting a class
by the value of a fixed function of what its nodes see. All of this is a function of the graph up to isomorphism, of
nothing else: not of the labels, the padding, the other samples or the device.

**What a node sees** is the multiset of ``(e_ij, e_ji, c_j)`` over the others. It is turned into a number by

    h_i = sum_j a(e_ij, e_ji) b(c_j)

with fixed pseudo-random integers ``a < 2^24``, ``b < 2^14`` and a = 0 for no edge: one product of matrices. All terms
are integers and no sum exceeds 2^53 below 32,768 nodes, so float64 adds them without rounding, in any order. (Sparse
graphs, which may be larger, are added in int64.)

**Is that exact?** Different multisets may have equal sums, for two independent ``b`` with a probability of 2^-22 in the
worst case, where two colours of edges have the same ``a``. Then a class is not split that could have been. But ``h`` is
a function of the multiset, so nodes that an isomorphism maps to each other have equal colours under any circumstances,
and classes never merge, as a round sorts by the old colour first. Discrete colours are therefore canonical, collision
or not; and code that relies on less must look at the edges, as ``residual`` does. At worst a library is called without
need.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from minframe.labelling.arcs import Arcs

_MIX = (-4658895280553007687, -7723592293110705685)  # the factors of the finaliser of splitmix64
_SEED = -7046029254386353131  # 2^64 over the golden ratio
_A_BITS, _B_BITS, _KEY_BITS = 24, 14, 40
_MAX_TABLE_COLOURS = 32  # edge colours up to which weights are looked up in a table
_MAX_COMPARED_PAIRS = 1 << 15  # pairs up to which comparing all of them is faster than sorting


def scramble(x: Tensor) -> Tensor:
    """A fixed bijection of 64-bit integers that leaves no pattern; multiplication wraps."""
    x = x * _SEED  # new memory
    for factor, shift in zip(_MIX, (30, 27), strict=True):
        x.bitwise_xor_((x >> shift) & ((1 << (64 - shift)) - 1)).mul_(factor)
    return x.bitwise_xor_((x >> 31) & ((1 << 33) - 1))


def _bits(x: Tensor, start: int, count: int) -> Tensor:
    return (x >> start) & ((1 << count) - 1)


def edge_weights(forth: Tensor, back: Tensor) -> Tensor:
    """``a``: integers, zero where both colours are zero."""
    if forth.numel() > 4 * _MAX_TABLE_COLOURS**2 and forth.device.type == "cpu":  # a table gives the same numbers
        low, high = (int(x) for x in forth.aminmax())
        low, high = min(low, 0), max(high, 0)
        if high - low < _MAX_TABLE_COLOURS:
            colour = torch.arange(low, high + 1)
            table = edge_weights(colour.unsqueeze(-1), colour)
            return table.take((forth - low) * colour.shape[0] + back.sub(low))
    a = _bits(scramble(scramble(forth) + back), 40, _A_BITS) | 1
    return a.mul_((forth != 0) | (back != 0))


def _node_weights(colours: Tensor) -> Tensor:
    """Two independent ``b``, in a new last axis."""
    code = scramble(colours + 1)
    return torch.stack([_bits(code, 48, _B_BITS) | 1, _bits(code, 32, _B_BITS) | 1], -1)


@functools.lru_cache(maxsize=16)
def _weights_table(n: int, bits: int, device: torch.device) -> Tensor:
    """``_node_weights`` of the colours below ``n``, in float64; ``bits`` is what they depend on."""
    return _node_weights(torch.arange(n, device=device)).double()


def _keys(colours: Tensor, seen: Tensor) -> Tensor:
    """Integers that sort by colour, then by what is seen ``(..., 2)``.

    The high bits of a wrapping sum of products with odd numbers are a universal hash.
    """
    first, second = seen.unbind(-1)
    return (colours << _KEY_BITS) + _bits(first * _MIX[0] + second * _MIX[1], 23, _KEY_BITS)


def _before(keys: Tensor) -> Tensor:
    """For each entry of ``(*batch, n)`` the number of smaller ones."""
    if keys.numel() * keys.shape[-1] <= _MAX_COMPARED_PAIRS:
        return (keys.unsqueeze(-1) > keys.unsqueeze(-2)).sum(-1)
    ascending, position = keys.sort(-1)
    start = torch.arange(keys.shape[-1], device=keys.device).repeat(*keys.shape[:-1], 1)
    start[..., 1:].masked_fill_(ascending[..., 1:] == ascending[..., :-1], 0)
    return torch.empty_like(position).scatter_(-1, position, start.cummax(-1)[0])


def initial(colours: Tensor, loops: Tensor, mask: Tensor | None = None) -> Tensor:
    """Lexicographic ranks of any two integers; padding comes last."""
    top = torch.iinfo(torch.int64).max
    if mask is not None:
        colours, loops = torch.where(mask, colours, top), torch.where(mask, loops, top)
    return _before(_before(colours) * (colours.shape[-1] + 1) + _before(loops))


def is_discrete(colours: Tensor, mask: Tensor | None = None) -> Tensor:
    """Whether refined ``colours`` ``(*batch, n)`` tell all real nodes apart, ``(*batch,)``."""
    # Colours count the nodes in front. Their sum is n (n - 1) / 2 if they are 0, ..., n - 1, and less otherwise.
    if mask is None:
        n = colours.shape[-1]
        return colours.sum(-1) == n * (n - 1) // 2
    real = mask.sum(-1)
    return torch.where(mask, colours, 0).sum(-1) == real * (real - 1) // 2


def refine_step(weights: Tensor, colours: Tensor) -> Tensor:
    """One round, for ``weights`` ``(*batch, n, n)`` from ``edge_weights`` in float64, zero on the diagonal."""
    b = _weights_table(colours.shape[-1], _B_BITS, colours.device)[colours]
    if weights.ndim == 2 and b.ndim == 3:  # many colourings of one graph
        seen = (weights @ b.movedim(0, -1).flatten(1)).view(-1, 2, b.shape[0]).movedim(-1, 0)
    else:
        seen = weights @ b
    return _before(_keys(colours, seen.long()))


def refine(colours: Tensor, edges: Tensor, mask: Tensor | None = None) -> Tensor:
    """The coarsest equitable partition finer than ``colours``, as colours ``(*batch, n)``.

    Args:
        colours: of the nodes, ``(*batch, n)``, int64, any numbers.
        edges: colours of the ordered pairs, ``(*batch, n, n)``, int64, 0 for no edge; the diagonal has self-loops.
        mask: ``(*batch, n)``, True for real nodes. The colour of padding is the number of real nodes.
    """
    shape, n = colours.shape, colours.shape[-1]
    if n == 0 or colours.numel() == 0:
        return colours.clone()
    edges = edges.reshape(-1, n, n)
    mask = None if mask is None else mask.reshape(-1, n)
    result = initial(colours.reshape(-1, n), edges.diagonal(dim1=-2, dim2=-1), mask)
    todo = (~is_discrete(result, mask)).nonzero().squeeze(-1)
    if todo.shape[0] == 0:
        return result.view(shape)
    if todo.shape[0] < result.shape[0]:
        edges, mask = edges[todo], None if mask is None else mask[todo]
    now, weights = result[todo], edge_weights(edges, edges.mT).double()
    weights.diagonal(dim1=-2, dim2=-1).zero_()
    if mask is not None:
        weights.mul_(mask.unsqueeze(-1) & mask.unsqueeze(-2))
    # Finished samples are removed once they are half of the batch.
    running = torch.ones_like(todo, dtype=torch.bool)
    while True:
        new = refine_step(weights, now)
        running &= (new != now).any(-1) & ~is_discrete(new, mask)
        now = new
        left = int(running.sum())
        if left == 0:
            result[todo] = now
            return result.view(shape)
        if 2 * left <= running.shape[0]:
            result[todo] = now
            todo, now, weights = todo[running], now[running], weights[running]
            mask = None if mask is None else mask[running]
            running = running[running]


def refine_sparse(colours: Tensor, arcs: Arcs, batch: Tensor | None = None, rounds: int | None = None) -> Tensor:
    """The same for graphs given by their arcs: colours ``(N,)`` as of ``refine``, counted within each graph.

    Args:
        colours: of the nodes, ``(N,)``, int64, any numbers; they have to include self-loops.
        arcs: of all graphs together.
        batch: the graph that each node belongs to, ``(N,)``, in any order; ``None``: one graph.
        rounds: stop after this many, as a long path needs half as many as it has nodes. What has been found is then
            invariant but not equitable.

    The cost of a round is linear in the arcs of nodes that are not yet told apart.
    """
    if batch is None:
        batch = torch.zeros_like(colours)
    first = torch.bincount(batch)
    first = (first.cumsum(0) - first)[batch]  # the number of nodes in graphs before one's own
    now = _before(_before(batch) * (colours.shape[0] + 1) + _before(colours))
    source, target, weights = arcs.source, arcs.target, edge_weights(arcs.forth, arcs.back)
    done = 0
    while rounds is None or done < rounds:
        sizes = torch.bincount(now, minlength=now.shape[0])
        tied = sizes[now] > 1
        keep = tied[source]
        source, target, weights = source[keep], target[keep], weights[keep]
        nodes = tied.nonzero().squeeze(-1)
        seen = _node_weights(now - first)[target] * weights.unsqueeze(-1)
        seen = torch.zeros((now.shape[0], 2), dtype=torch.int64, device=now.device).index_add_(0, source, seen)
        old = now[nodes]
        # The nodes in front of a new class: those in front of the old one, and those of the old one that are smaller.
        new = old + _before(_keys(old, seen[nodes])) - _before(old)
        if bool((new == old).all()):
            break
        now = now.index_copy(0, nodes, new)
        done += 1
    return now - first
