"""Evict tokens from a KV cache and close the gap: python journey_evict.py."""

import numpy as np

import posenc

rope = posenc.RoPE(64, pairing="half")
rng = np.random.default_rng(0)
sinks, window, steps = 4, 60, 500  # keep the first 4 tokens and the last 60
values = rng.standard_normal((steps, 64))  # what the keys were before rotation
queries = rng.standard_normal((steps, 64))

# The cache holds rotated keys. A token's position is its place in the cache, so that positions
# never grow beyond what the model was trained for.
cache = np.empty((0, 64))
kept: list[int] = []  # which token each row of the cache is
moves = np.zeros(steps, int)  # how often each key was moved
for step in range(steps):
    if len(cache) == sinks + window:  # full: drop the older half of the window, and move the rest
        dropped = window // 2
        old = np.arange(sinks + dropped, sinks + window)
        rest = posenc.rerotate(rope, cache[old], old, old - dropped)
        cache = np.concatenate([cache[:sinks], rest])
        kept = kept[:sinks] + kept[sinks + dropped :]
        moves[kept[sinks:]] += 1
    place = len(cache)
    key = posenc.rotate(rope, values[step : step + 1], offset=place)
    cache, kept = np.concatenate([cache, key]), [*kept, step]
    query = posenc.rotate(rope, queries[step : step + 1], offset=place)
    scores = cache @ query[0]

# The same from scratch: rotate the raw keys that are left, at the positions that they have now.
scratch = posenc.rotate(rope, values[kept])
print(f"{steps} tokens, {len(cache)} of them in the cache")
print("equal to the kept keys, rotated anew:", bool(abs(cache - scratch).max() < 1e-14))

# Without moving the keys, distances count the tokens that are gone.
naive = posenc.rotate(rope, values[kept], positions=np.array(kept))
far = posenc.rotate(rope, queries[-1:], positions=[steps - 1])
print("scores that change if gaps stay:", int((abs(naive @ far[0] - scores) > 0.1).sum()))

# Each move rounds a key once, and in bfloat16 a small move is lost. So drop many tokens at a
# time.
print("no key was moved more than", moves.max(), "time, by", window // 2, "positions")
