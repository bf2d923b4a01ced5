"""Arguments of the verbs, read once: specs, tokens, scores, shards of processes."""
