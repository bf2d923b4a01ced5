"""Names of other libraries and tutorials for encodings, functions, modules and pictures."""

from __future__ import annotations

# Names that are near another in letters and mean something else; these come before what is near.
APART: tuple[tuple[str, str], ...] = (
    (
        r"^build$|^positions?$|scene|rope_?index|(mrope|3d|multi_?modal|image|video)_(pos|ids)",
        (
            "posenc.positions.multimodal([5, (1, 4, 6), 3]) for 5 tokens of text, an image of 4 "
            "by 6 and 3 of text, posenc.positions.grid((4, 6)) for an image alone; for a model of "
            'diffusers, posenc.explain(FOLDER).layers[0].positions.build([("image", (1, 4, 6))])'
        ),
    ),
    (
        r"(rope|rotary).*([23]_?d|axial)|([23]_?d|axial).*(rope|rotary)|^flux|^axial|per_?axis",
        (
            'posenc.preset("pixtral", 64) of two axes, posenc.preset("flux", 128) of three, whose '
            "positions are posenc.positions.grid((14, 14)) or grid((4, 14, 14)); a scaling for "
            "each axis is .replace(scaling=posenc.scaling.PerAxis((None, posenc.scaling.NTK(2), "
            "posenc.scaling.NTK(2))))"
        ),
    ),
    (
        r"^m_?rope|multi_?modal.*(rope|rotary)|vl_?rot\w*|qwen\d*_?vl",
        'posenc.preset("qwen2-vl", 128), with the sections 16, 24, 24 and the positions (t, h, w)',
    ),
    (
        r"(unrotate|derotate|inverse_?(rope|rot)|undo_rot)",
        "posenc.rotate(spec, x, inverse=True)",
    ),
    (
        r"time_?step|time_?(pos\w*_?)?emb|time_?proj",
        (
            "posenc.Timestep(320).table([1, 10, 500]), or with the choices of diffusers "
            'posenc.preset("diffusion-timestep", 320)'
        ),
    ),
    (
        r"^compare|^max_abs|^(abs_)?diff",
        "posenc.diff(a, b), whose rows have what differs and by how much",
    ),
    (
        r"^(list|names|available|all|catalogue?)$|(list|get)_?(names|encodings|presets)",
        "posenc.presets.names(), or the command `posenc list`",
    ),
    (r"bibtex|citation|^paper", 'posenc.cite("RoPE").bibtex'),
    (
        r"^(un)?permute|^(to|from)_(half|interleaved|neox|gptj)|(convert|fix)_pairing",
        (
            'posenc.convert(FOLDER, OUTPUT, pairing="interleaved") for a checkpoint, and '
            "posenc.reorder(spec, other) for the channels of two tables; one weight of q or k in "
            "torch goes from half to interleaved by "
            "w.unflatten(0, (-1, 2, HEAD_DIM // 2)).transpose(1, 2).flatten(0, 2)"
        ),
    ),
    (
        r"^(to|save|write|export)_(hf|config|hugging_?face|transformers|pretrained)",
        'posenc.to_hf(config, "hf5"), or posenc.extend(config, 32768).config()',
    ),
)

# Parts of names, as everybody composes them -> what does that here. The first that fits is named.
NAMES: tuple[tuple[str, str], ...] = (
    (
        r"(sin|pos|mae|vit).*2_?d|2_?d.*(sin|pos)",
        'posenc.preset("mae", 768), whose rows are spec.table(posenc.positions.grid((14, 14)))',
    ),
    (
        r"mscale|attention_(factor|scaling)",
        "posenc.scaling.YaRN(4, original_length=4096).attention_factor()",
    ),
    (r"yarn", "posenc.scaling.YaRN"),
    (r"dynamic.*ntk|ntk.*dynamic", "posenc.scaling.DynamicNTK"),
    (r"long_?rope|su_?scaled", "posenc.scaling.LongRoPE"),
    (r"ntk", "posenc.scaling.NTK"),
    (r"llama_?3.*(scal|rope)", "posenc.scaling.Llama3"),
    (r"linear_?scal|position_?interpolation", "posenc.scaling.Linear"),
    (r"rope_(scaling|parameters|init)", "posenc.from_hf, which reads the config of a model"),
    (r"^sin_?cos$", "posenc.cos_sin: the cosine comes first"),
    (r"rotate_half", 'posenc.rotate(posenc.RoPE(dim, pairing="half"), x)'),
    (r"rotate_every|rotate_interl", 'posenc.rotate(posenc.RoPE(dim, pairing="interleaved"), x)'),
    (r"apply_(rope|rotary)", "posenc.rotate(spec, x), or posenc.apply_rotary(x, cos, sin, …)"),
    (r"rotate_quer|rotate_keys", "posenc.rotate"),
    (r"freqs?_cis|cos_?sin|sin_?cos_cache|rope_cache", "posenc.cos_sin"),
    (r"kv_?cache", "posenc.rotate with `offset=`, the number of cached tokens"),
    (r"rotary|rope", "posenc.RoPE, the spec, and posenc.torch.RotaryEmbedding, the module"),
    (r"slopes", "posenc.torch.slopes(spec), or posenc.bias(posenc.ALiBi(heads), n)"),
    (r"alibi", "posenc.ALiBi, the spec, and posenc.bias(spec, n), its numbers"),
    (r"inv_?freq|freqs|frequenc", "posenc.frequencies"),
    (r"fourier", "posenc.Fourier"),
    (
        r"interpolat|resample|resize",
        "posenc.resize for learned tables, posenc.scaling.Linear for RoPE",
    ),
    (r"sin_?cos|sinus|sine|sin_?pos", "posenc.Sinusoidal, the spec, and posenc.table(spec, n)"),
    (r"learn|absolute|^wpe$|trainable", "posenc.Learned"),
    (r"bucket", "posenc.T5(heads).bucket(rel), which takes the distances key - query"),
    (r"t5|relative_?position_?bias|relative_attention_bias", "posenc.T5"),
    (r"rel_?pos_?bias|swin|window", "posenc.WindowTable"),
    (r"transformer_?xl", "posenc.TransformerXL"),
    (
        r"relative|rel_?pos",
        "posenc.Shaw or another of `posenc list relative`, or posenc.T5, a bias",
    ),
    (
        r"from_(pretrained|config|hugging|file)|auto_?config|load_config|^config",
        "posenc.from_hf, which reads the config of a model",
    ),
    (r"^encode$|^embed$|^forward$|^apply$|^add_", "posenc.add(spec, x), or posenc.rotate(spec, x)"),
    (r"^check$|^verify|^validate$|^test$", "posenc.testing, or `posenc check`"),
    (
        r"pos\w*_?(enc|emb)|^pe$|^pos_?e",
        "posenc.Sinusoidal and posenc.table(spec, n), or posenc.torch.PositionTable, the module",
    ),
    (r"^(token_?|input_?)?embeddings?$", "posenc.torch.PositionTable, or posenc.add(spec, x)"),
    (r"^no_?(pe|ne)$|^identity$", "no encoding at all: a layer of a plan without a spec"),
    (r"mesh_?grid|^patch_?(positions|grid)", "posenc.positions.grid"),
    (
        r"^(load|read|save|dump|loads|dumps)$",
        "posenc.from_hf for the config of a model, and posenc.from_json and to_json for specs",
    ),
    (r"^(heatmap|show|plot|draw|figure|imshow)$", "posenc.plot.table, for a heatmap"),
    (
        r"^(get|create|make|new)(_preset|_spec|_encoding|_rope)?$",
        'posenc.preset("llama3", 128), or another of `posenc list`',
    ),
    (r"^(adopt|adopting|release|attend)$", "posenc.torch.NAME"),
    (r"^(nn|modules?|layers|keras|pytorch)$", "posenc.torch, the modules of PyTorch"),
    (
        r"^(jax|numpy|flax|mlx|np)$",
        "posenc.rotate and the other verbs, which take arrays of any library",
    ),
    (r"^(cite|quiz|study|explore)$", "a command: `posenc NAME`"),
    (r"^version$", "posenc.__version__"),
    (r"^help$", "help(posenc), or `posenc --help`"),
)
# The same, for pictures.
PLOTS: tuple[tuple[str, str], ...] = (
    (r"freq|wave_?len|spectrum|ladder|theta", "posenc.plot.wavelengths"),
    (
        r"heat|table|matrix|imshow|embedding|encoding|sinus|show|draw|figure",
        "posenc.plot.table, a heatmap",
    ),
    (r"decay|dist|score|kernel|dot", "posenc.plot.offset"),
    (r"rot|rope|circle|angle|phase|clock|polar", "posenc.plot.rotation"),
    (r"slope|bias|alibi|t5|bucket", "posenc.plot.bias"),
    (r"attn|weights", "posenc.plot.attention"),
    (r"scal|extend|extrapol|yarn|ntk|context", "posenc.plot.stretch"),
    (r"diff|versus|vs|side", 'posenc.plot.compare("table", a, b)'),
    (r"sim|cos|corr", "posenc.plot.similarity"),
    (r"line|curve|sin|column|dim", "posenc.plot.waves"),
)
# The same, for what is a module in PyTorch.
MODULES: tuple[tuple[str, str], ...] = (
    (
        r"rotary|rope",
        (
            'posenc.torch.RotaryEmbedding(posenc.RoPE(64, pairing="half")), which turns q and k; '
            "posenc.cos_sin(spec, n) has cosines and sines alone, posenc.apply_rotary applies them"
        ),
    ),
    (r"patch|replace|swap|inject|convert", "posenc.torch.adopt(model)"),
    (r"alibi|bias|t5", "posenc.torch.AttentionBias"),
    (r"relative|rel_?pos", "posenc.torch.RelativeAttention"),
    (r"sin|learn|absolute|pos\w*_?(enc|emb)|table", "posenc.torch.PositionTable"),
)
