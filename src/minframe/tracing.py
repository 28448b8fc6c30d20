"""Whether a tensor is seen by compilers, tracers, transforms or dispatch modes; other private names of PyTorch.

All private names of PyTorch that the library uses are here, as there is no public equivalent. They
were last checked with PyTorch 2.13; ``tests/test_tracing.py`` fails where a later version changes one of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.utils.data
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.utils import _pytree

F = TypeVar("F", bound=Callable[..., Any])


#: whether ``torch.compile`` or ``torch.export`` traces this call: no value of a tensor may then be read
is_compiling = torch.compiler.is_compiling


#: whether a tensor stands for many tensors or for a derivative, as inside ``torch.func.vmap`` or ``jvp``. Private:
#: ``torch.func`` has no public test for its wrappers. There since PyTorch 2.0.
is_transformed: Callable[[Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor


def is_mapped(x: Tensor) -> bool:
    """Whether ``x`` stands for many tensors, as inside ``torch.func.vmap``, below whatever other transforms.

    Private: as for ``is_transformed``. There since PyTorch 2.0.
    """
    while not is_compiling() and is_transformed(x):
        if torch._C._functorch.is_batchedtensor(x):
            return True
        x = torch._C._functorch.get_unwrapped(x)
    return False


def is_fake(x: Tensor) -> bool:
    """Whether ``x`` has a device and no values, as where memory is estimated, below whatever transforms.

    Private: no public name says so. There since PyTorch 2.0.
    """
    while is_transformed(x):
        x = torch._C._functorch.get_unwrapped(x)
    return isinstance(x, FakeTensor)


def constant_while_compiling(function: F) -> F:
    """A decorator: a compiler calls the function, and treats its result as a constant.

    It is all that ``torch.compiler.assume_constant_result`` does, which imports the compiler for it: more than a
    second, in every process that imports this library. Since PyTorch 2.0.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant_while_compiling
def is_inside_transform() -> bool:
    """Whether the call is inside a transform of ``torch.func``, or forward-mode differentiation, of any tensor.

    A compiler asks once, when it traces, and compiles anew where the answer is another one. Private: as for
    ``is_transformed``, which compilers cannot ask. There since PyTorch 2.0.
    """
    return torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def is_pushed(x: Tensor) -> bool:
    """Whether a transform or forward-mode differentiation sees ``x``, which an ``autograd.Function`` has no rule for.

    While compiling, whether one may. Private: ``forward_ad`` does not say otherwise whether a level of it is active,
    and ``unpack_dual`` is an error outside of one. There since PyTorch 1.11.
    """
    if is_compiling():
        return is_inside_transform()
    return is_transformed(x) or (forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None)  # type: ignore[no-untyped-call]


def has_tangent(x: Tensor) -> bool:
    """Whether derivatives are taken with respect to ``x``, backward or forward."""
    return (torch.is_grad_enabled() and x.requires_grad) or is_pushed(x)


def is_plain(x: Tensor) -> bool:
    """Whether compiled loops may read ``x`` from memory: no compiler, tracer or transform, and no derivative.

    Nor may a dispatch mode or ``torch.jit.trace`` be active, which have to see every operation. Private:
    ``torch.utils._python_dispatch`` and the tracer count themselves there only. Since PyTorch 2.0. Nor may it stand for
    many gradients, as with ``is_grads_batched``, which ``is_transformed`` does not see: it has no memory of its own.
    """
    # Small graphs and clouds ask a dozen times for each call: no other function of this module is called.
    if is_compiling() or type(x) is not Tensor or is_transformed(x) or (x.requires_grad and torch.is_grad_enabled()):
        return False
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None:  # type: ignore[no-untyped-call]
        return False
    return not (
        x.is_neg()  # memory holds the opposite sign
        or not torch._C._has_storage(x)
        or torch._C._len_torch_dispatch_stack()
        or torch._C._is_tracing()
    )


@torch.no_grad()
def are_plain(*tensors: Tensor) -> bool:
    """Whether all are plain, but for gradients, which an ``autograd.Function`` has a rule for."""
    return all(map(is_plain, tensors))


def with_views(function: F) -> F:
    """A decorator, for what an operator runs: complex conjugates are read as such, which are views of memory.

    Below a dispatch mode, as in the first call of compiled code, PyTorch runs operators without the step that makes
    conjugates of such views. Private: there is no public way to put it in again. Since PyTorch 2.0.
    """
    keys = torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative

    @functools.wraps(function)
    def wrapped(*args: Any) -> Any:
        if not torch._C._dispatch_tls_is_dispatch_key_excluded(keys[0]):
            return function(*args)
        included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
        for key in keys:
            excluded = excluded.remove(key)
        with torch._C._ForceDispatchKeyGuard(included, excluded):
            return function(*args)

    return wrapped  # type: ignore[return-value]


def assume_positive(count: Any) -> None:
    """Tell a compiler that a size which depends on the data is positive."""
    torch._check(count > 0)  # type: ignore[no-untyped-call]


def tree_map(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to all leaves of nested containers, those included that users have registered with PyTorch.

    Private: ``torch.utils._pytree`` has no public name yet, and is what ``torch.export`` asks users to register with.
    """
    return _pytree.tree_map(function, *trees)


def tree_leaves(tree: Any) -> list[Any]:
    """All leaves of nested containers; see ``tree_map``."""
    return _pytree.tree_leaves(tree)


def collate_as_list(kind: type) -> None:
    """Let ``torch.utils.data.default_collate``, and so every loader, return objects of this class as a list.

    Private: the documentation of ``default_collate`` tells to update this mapping, which is in a private module. Since
    PyTorch 1.13.
    """
    torch.utils.data._utils.collate.default_collate_fn_map[kind] = _as_list


def _as_list(batch: list[Any], *, collate_fn_map: Any = None) -> list[Any]:
    return list(batch)
