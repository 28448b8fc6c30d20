"""The other canonical forms of the paper's table: eigendecomposition, polar decomposition, Jordan form.

Each function takes matrices ``P`` of shape ``(*batch, d, d)`` and returns the canonical form of every one, the same for
all of its orbit, with a group element ``g`` that leads from the canonical form back to ``P``:

    ============  ======================  ====================  ==========  =========================================
    function      group                   action                canonical   element
    ============  ======================  ====================  ==========  =========================================
    ``eigen``     O(d), SO(d); U(d),      ``g P g^*``           Lambda      up to O(k) or U(k) on each eigenspace
                  SU(d)
    ``polar``     O(d); U(d)              ``g P``               H           unique at full rank
    ``jordan``    GL(d, C)                ``g P g^-1``          J           up to the matrices that commute with J
    ============  ======================  ====================  ==========  =========================================

They differ in the effect of a small change of ``P``. ``H`` and ``Lambda`` are stable. ``g`` jumps where
eigenvalues meet (``eigen``) or the rank drops (``polar``); no choice of ``g`` avoids that. ``J`` itself is
discontinuous. The docstrings give the bounds.

Everything is computed in float64 or complex128 and cast back. Tolerances are relative to ``|P|_2``, so units do not
matter; their default is a power of the ``eps`` of the dtype that was *given*, since its rounding is in the data.

**Derivatives** of ``eigen`` and ``polar``. Library derivatives of eigenvectors and singular vectors divide by the
differences of eigenvalues and are NaN where two are equal, even for functions such as ``H`` that are smooth there. Here
the decomposition of the detached ``P`` gives the value, and two Newton steps for the equation that the factors solve
give the derivatives. With ``X`` skew, ``V -> V (1 + X + X^2 / 2)`` stays unitary up to ``O(X^4)``, and

* ``eigen``: ``X_ij = (V^* P V)_ij / (l_j - l_i)`` removes what couples different eigenspaces; inside one it is 0;
* ``polar``: with ``A = W^* P V`` and ``P = W S V^*``, ``X_ij = (A - A^*)_ij / (s_i + s_j)`` makes ``A`` Hermitian.

Each ``X`` enters as ``X - X.detach()``: it is zero, its derivative is not. The first step is right to first order and
the second, with the same denominators, to second: both forms can be differentiated twice, in any mode.
"""

from minframe.forms.hermitian import EigenForm, eigen
from minframe.forms.similarity import JordanForm, jordan
from minframe.forms.stretch import PolarForm, polar

__all__ = ["EigenForm", "JordanForm", "PolarForm", "eigen", "jordan", "polar"]
