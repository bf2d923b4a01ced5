"""Read the positions of a checkpoint that nobody documented: python journey_checkpoint.py."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import posenc

# 1. What somebody left: no config, no code, and buffers with names of their own.
rng = np.random.default_rng(0)
hidden = {
    "enc.pe": posenc.table(posenc.Sinusoidal(64, order="sin_cos", base=500), range(2, 202)),
    "dec.freqs": posenc.frequencies(
        posenc.RoPE(64, pairing="half", base=1e6, scaling=posenc.scaling.Linear(4))
    ).astype("float32"),
    "head.bias_slopes": np.asarray(posenc.ALiBi(12).arrays["slopes"], "float32"),
    "enc.wpe": rng.standard_normal((77, 64), dtype="float32"),
    "enc.mlp": rng.standard_normal((64, 64), dtype="float32"),
}
save_file(hidden, "strange.safetensors")

# 2. Which arrays are positions, and by which rule? A rule is claimed if it rebuilds every
#    entry.
result = posenc.identify("strange.safetensors")
for finding in result:
    spec = type(finding.spec).__name__ if finding.spec else "no rule known here"
    print(f"{finding.name}: {finding.verdict}, {spec}")

# 3. The finding makes more rows than the file has: the model can read longer texts, or be
#    tested.
spec = next(f.spec for f in result if f.name == "enc.pe")
longer = posenc.table(spec, 1000)
print("enc.pe goes on from row 200:", bool(np.allclose(longer[:200], hidden["enc.pe"], atol=1e-6)))
rope = next(f.spec for f in result if f.name == "dec.freqs")
[scaling] = rope.scaling
print(f"dec.freqs: base {rope.base:g}, {type(scaling).__name__} by {scaling.factor:g}")


# 4. Frequencies do not say which channels are a pair. Ask the function, if there is one ...
def their_rotary(x, positions):
    angle = positions[:, None] * hidden["dec.freqs"]
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
    return np.stack(pairs, axis=-1).reshape(x.shape)


inferred = posenc.infer_spec(their_rotary, dim=64)
print("their code:", inferred.spec.pairing.order, "to position", inferred.reach.position)

# 5. ... or the weights: posenc pairing FOLDER. Keep what you found as JSON beside the file.
Path("strange.spec.json").write_text(posenc.to_json(inferred.spec))
