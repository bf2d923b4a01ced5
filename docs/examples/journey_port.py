"""Port a Llama to an engine of your own, with a golden file: python journey_port.py."""

import json
import math
from pathlib import Path

import numpy as np

import posenc

# 1. The config of the model, as it is published.
config = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
Path("config.json").write_text(json.dumps(config))

# 2. Once, with posenc: the numbers that every port must give.
contract = posenc.golden("config.json")
contract.save("llama.golden.json", existing="replace")


# 3. The engine. It imports nothing of posenc and may be in any language.
def engine(positions, scaling):
    frequencies = []
    for j in range(32):
        frequency = 500_000.0 ** (-j / 32)
        if scaling:  # slow pairs are slowed by 8, fast ones are not, those between are blended
            turns = 8192 * frequency / (2 * math.pi)
            kept = min(max((turns - 1) / (4 - 1), 0), 1)
            frequency *= kept + (1 - kept) / 8
        frequencies.append(frequency)
    angles = np.multiply.outer(positions, np.array(frequencies, "float32"), dtype="float32")
    return np.cos(angles), np.sin(angles)


# 4. The test of the engine: it reads the file with a JSON parser alone.
def wrong_positions(scaling):
    golden = json.loads(Path("llama.golden.json").read_text())
    angles = [check for check in golden["checks"] if check["check"] == "angles"]
    off = []
    for check in angles:
        cos, sin = engine(np.array(check["position"], "float32"), scaling)
        error = max(abs(cos[0] - check["cos"]).max(), abs(sin[0] - check["sin"]).max())
        if not error <= check["tolerance_float32"]:
            off.append(check["position"][0])
    return f"{len(off)} of {len(angles)} positions are wrong"


print("without the scaling:", wrong_positions(scaling=False))
print("with the scaling:", wrong_positions(scaling=True))


# 5. With posenc at hand, the same in one call, which names the field.
def forgetful(positions):
    return engine(positions, False)


for difference in posenc.diff("llama.golden.json", forgetful).differences:
    print(f"posenc diff: {difference.field}: {difference.a} against {difference.b}")
