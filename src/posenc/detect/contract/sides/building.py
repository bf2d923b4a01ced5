"""What is kept from a class that a config of somebody builds: code, kernels, absurd sizes."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

MOST_BUILT = 2**18  # modules and tensors: twice those of 61 layers with 384 experts each
# Keys by which a config has a class load code or kernels, or weights from elsewhere.
ELSEWHERE = re.compile(
    r"^(auto_map|_name_or_path|use_kernels|kernel_config|quantization_config|_?adapter\w*|"
    r"\w*(attn|attention|experts)_implementation\w*)$"
)


def without_code(value: Any) -> Any:
    """A config without the keys that name code, kernels or files elsewhere, at any depth."""
    if isinstance(value, dict):
        return {k: without_code(v) for k, v in value.items() if not ELSEWHERE.search(str(k))}
    return [without_code(v) for v in value] if isinstance(value, list) else value


@contextlib.contextmanager
def counted(torch: Any) -> Iterator[None]:
    """Raise where more modules and tensors are built than any model has."""
    built = 0

    def count(*_: object) -> None:
        nonlocal built
        built += 1
        if built > MOST_BUILT:
            raise ValueError(f"it has more than {MOST_BUILT:,} modules and tensors")

    hooks = torch.nn.modules.module
    with contextlib.ExitStack() as stack:
        for kind in ("module", "parameter", "buffer"):
            register = getattr(hooks, f"register_module_{kind}_registration_hook")
            stack.callback(register(count).remove)
        yield
