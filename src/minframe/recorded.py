"""Canonical orders depend on a library and its version: a model records the one it was trained with."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

LABELLING = "labelling"  # the entry of a state dict that names the library of canonical orders


def _mismatch(recorded: str | None, present: str | None) -> str | None:
    """The message if a model would run with canonical orders other than those it was trained with, else ``None``."""
    if recorded is None or recorded == present:
        return None
    return (
        f"the model was made with the canonical labelling of {recorded}, but here is {present or 'none'}: canonical "
        "orders differ between libraries and versions, and so would its outputs. Install that version, or choose the "
        f"library with mf.S(backend=...); to load it all the same, remove {LABELLING!r} from the state dict"
    )


class RecordsLabelling(nn.Module):
    """A module whose checkpoints name the ``labelling`` of its frames, if these depend on one.

    A state dict with another one is not loaded, and a pickled module warns.
    """

    labelling: str | None

    def _present_labelling(self) -> str | None:
        """The labelling of this installation."""
        raise NotImplementedError

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.labelling is not None:  # as a tensor, which every format of checkpoints can hold
            destination[prefix + LABELLING] = torch.tensor(list(self.labelling.encode()), dtype=torch.uint8)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        recorded = state_dict.get(prefix + LABELLING)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if recorded is not None:
            if prefix + LABELLING in unexpected_keys:
                unexpected_keys.remove(prefix + LABELLING)
            message = _mismatch(bytes(recorded.tolist()).decode(), self.labelling)
            if message:
                error_msgs.append(message)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        message = _mismatch(self.labelling, self._present_labelling())
        if message:
            warnings.warn(message, stacklevel=2)
