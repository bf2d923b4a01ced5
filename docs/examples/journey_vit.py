"""Take a vision transformer to another resolution: python journey_vit.py."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

import posenc

rng = np.random.default_rng(0)
Path("vit").mkdir(exist_ok=True)

# 1. Two checkpoints for 224 x 224 pixels: 14 x 14 patches of 16 pixels, behind a class token.
#    In one the positions were learned (ViT, DeiT, DINOv2), in the other they follow a formula
#    (MAE).
smooth = np.cumsum(rng.standard_normal((14, 14, 96)), axis=0).reshape(196, 96)
learned = np.concatenate([rng.standard_normal((1, 96)), smooth]).astype("float32")
formula = posenc.preset("mae", 96)
cells = posenc.positions.grid({"h": 14, "w": 14}, prefix=1)
save_file({"pos_embed": learned[None]}, "vit/learned.safetensors")
save_file({"pos_embed": posenc.table(formula, cells)[None]}, "vit/computed.safetensors")

# 2. Which is which? The file does not say; its numbers do.
for name in ("learned", "computed"):
    [finding] = posenc.identify(f"vit/{name}.safetensors")
    print(f"{name}: {finding.verdict}", finding.spec.order if finding.spec else "")

# 3. Learned positions are interpolated. 384 x 256 pixels are 24 x 16 patches.
old = posenc.Learned(96, length=(14, 14), lookup=posenc.Lookup(prefix=1))
weight = load_file("vit/learned.safetensors")["pos_embed"][0]
new, params = posenc.resize(old, {"weight": weight}, (24, 16))
same = bool((params["weight"][0] == weight[0]).all())
print("learned, 24 x 16:", params["weight"].shape, "class token as it was:", same)

# 4. Computed positions are computed again, from the spec that was found. A patch keeps the row
#    that it had in training, and cells beyond 14 get rows that the model has not seen.
#    Interpolation squeezes the new grid into the old range instead. Which one a model likes
#    better, only a test tells.
[finding] = posenc.identify("vit/computed.safetensors")
rows = posenc.table(finding.spec, posenc.positions.grid({"h": 24, "w": 16}, prefix=1))
stored = load_file("vit/computed.safetensors")["pos_embed"][0]
squeezed = posenc.resize(old, {"weight": stored}, (24, 16))[1]["weight"]
before, after = 1 + 3 * 14 + 5, 1 + 3 * 16 + 5  # the patch in row 3, column 5
for name, table in ("computed again", rows), ("interpolated", squeezed):
    same = bool(abs(table[after] - stored[before]).max() < 1e-6)
    print(f"{name}, 24 x 16:", table.shape, "row 3, column 5 as in training:", same)

# 5. The files for the new size.
save_file({"pos_embed": params["weight"][None]}, "vit/learned-384x256.safetensors")
save_file({"pos_embed": rows[None]}, "vit/computed-384x256.safetensors")
