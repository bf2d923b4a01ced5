"""Names of other libraries and tutorials for encodings, functions, modules and pictures."""

from __future__ import annotations

# What people call a command, or the function of its name -> what to write.
VERBS = {
    "plot": "draw visualize visualise heatmap picture figure view",
    "explain": "facts config inspect read describe analyze analyse summary read_config "
    "report_config",
    "encode": "add embed apply",
    "check": "test verify validate",
    "convert": "permute convert_weights",
    "convert-config": "to_hf translate",
    "explore": "serve ui gui web app lesson lessons learn tutorial tour demo notebook widget",
    "golden": "reference snapshot inv_freq inv_freqs freq freqs frequencies angles phases",
    "diff": "compare",
    "pairing": "convention layout",
    "study": "train bench benchmark experiment",
    "doctor": "env report status versions debug diagnose troubleshoot",
    "table": "print rows sinusoids generate",
    "locate": "find_position position_of decode invert which where inverse",
    "identify": "guess recognize recognise detect classify what",
    "extend": "scale scaled yarn ntk longrope stretch lengthen context extrapolate",
    "list": "ls presets preset encodings names models plans search find show info families",
    "table -o FILE.npy": "export save write",
    "table --positions": "position positions row",
    "--version": "version v",
    "--help": "help usage man",
}

# By functions: calls that do what people try with other arguments.
CALLS = {
    "list": "posenc.presets.names() has the presets, `posenc list` the encodings as well.",
    "infer": "posenc.infer(f) asks code, posenc.infer((x, y, positions)) reads recorded arrays, "
    'posenc.identify({"cos": cos, "sin": sin}) cosines and sines.',
    "check": "posenc.check(f, spec=…) tries code, posenc.identify(array) looks at numbers.",
    "extend": "posenc.extend(config, 131072, rule='yarn') is for a model; a learned table grows by "
    "posenc.resize(spec, params, length, how='tile').",
    "locate": "posenc.locate(posenc.Sinusoidal(512), row) finds the position of a row, "
    'posenc.locate(posenc.RoPE(64, pairing="half"), rotated, before=x) that of a turned vector.',
    "explain": 'posenc.explain("config.json") reads a model: its config, folder or GGUF file.',
    "diff": "posenc.diff(a, b): each a config, a spec, a function, an array or a loaded model.",
    "identify": 'posenc.identify(array), or of a file: posenc.identify("table.npy"); of cosines '
    'and sines: posenc.identify({"cos": cos, "sin": sin}).',
    "cite": 'posenc.cite(spec) or posenc.cite("RoPE") has the BibTeX.',
    "trace": 'posenc.torch.trace(model, {"input_ids": ids}) runs a loaded model, '
    "`with posenc.torch.tracing(model) as run: model(ids)` watches your own call, "
    'posenc.trace("llama/") builds that of a folder; a function that turns q is for '
    "posenc.infer(f).",
    "compare": 'posenc.plot.compare("table", a, b) draws the table of two specs; other pictures '
    'are "wavelengths", "bias", "offset", "stretch", …',
    "preset": 'posenc.preset("llama3", 128): the width of a head or row, or the heads of a bias.',
    "doctor": 'posenc.doctor("llama/") looks at a model, posenc.doctor("llama/", f) at a port too.',
    "golden": 'posenc.golden(source).save("golden.json") writes the file, '
    'posenc.diff("golden.json", other) holds code or a model against it.',
    "shift": "posenc.rerotate(spec, k, old_positions, new_positions) moves cached keys; "
    "posenc.shift(spec, k) is the matrix that takes the row of a table at p to that at p + k; "
    "posenc.torch.cache.shift(posenc.torch.cache.track(cache, model), -4) moves a whole cache.",
    "evict": "posenc.torch.cache.evict(posenc.torch.cache.track(cache, model), [0, 1, 2, 3]) keeps "
    "these tokens.",
    "convert": 'posenc.convert(FILE, OUTPUT, pairing="interleaved") writes a checkpoint; it takes '
    "no arrays.",
}

# Names that are near another in letters and mean something else; these come before what is near.
APART: tuple[tuple[str, str], ...] = (
    (
        r"scores$|logits",
        "posenc.relative_score(spec, q, k, offsets), or posenc.torch.attend(q, k, v, spec)",
    ),
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
        r"^(list|names|available|all|catalogue?|models)$|(list|get|all|available)_?(names|enc\w+|pre\w+)",
        "`posenc list`, which has all encodings; posenc.presets.names() has the presets",
    ),
    (r"bibtex|citation|^paper", 'posenc.cite("RoPE").bibtex'),
    (
        r"^(un)?permute|(to|from)_(half|interleaved|neox|gptj)|(convert|fix)_(pairing|qk|weights)",
        (
            'posenc.convert(FOLDER, OUTPUT, pairing="interleaved") for a checkpoint, and '
            "posenc.reorder(spec, other) for two tables; one weight of q or k in torch becomes "
            "interleaved by w.unflatten(0, (-1, 2, HEAD_DIM // 2)).transpose(1, 2).flatten(0, 2), "
            "and half with (-1, HEAD_DIM // 2, 2)"
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
    (r"rotate_half", 'a step of posenc.rotate(posenc.RoPE(dim, pairing="half"), x)'),
    (
        r"rotate_every|rotate_interl",
        'a step of posenc.rotate(posenc.RoPE(dim, pairing="interleaved"), x)',
    ),
    (
        r"1_?d.*sin_?cos|sin_?cos.*1_?d",
        'posenc.table(posenc.Sinusoidal(dim, order="sin_cos"), positions)',
    ),
    (r"apply_(rope|rotary)", "posenc.rotate(spec, x), or posenc.apply_rotary(x, cos, sin, …)"),
    (r"rotate_quer|rotate_keys", "posenc.rotate"),
    (r"freqs?_cis|cos_?sin|sin_?cos_cache|rope_cache", "posenc.cos_sin"),
    (
        r"cache|^evict|streaming",
        (
            "posenc.rotate with `offset=`, the number of cached tokens; to drop or move keys, "
            "posenc.torch.cache.track(cache, model), then its evict, shift or streaming"
        ),
    ),
    (r"rotary|rope", "posenc.RoPE, the spec, and posenc.torch.RotaryEmbedding, the module"),
    (r"slopes", "posenc.ALiBi(heads).slopes, and posenc.torch.slopes(spec) as a tensor"),
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
    (
        r"^no_?(pe|ne)$|^identity$",
        (
            "no encoding at all: a layer of a plan without a spec; `posenc explore` has attention "
            "without positions"
        ),
    ),
    (
        r"position_?ids|^positions_",
        "posenc.positions, such as positions.from_mask(mask) and positions.packed(cu_seqlens)",
    ),
    (r"mesh_?grid|^patch_?(positions|grid)", "posenc.positions.grid"),
    (
        r"^(load|read|save|dump|loads|dumps)$",
        (
            'posenc.from_hf for the config of a model, posenc.identify("table.npy") for arrays, '
            "and posenc.from_json and to_json for specs"
        ),
    ),
    (r"^(heatmap|show|plot|draw|figure|imshow)$", "posenc.plot.table, for a heatmap"),
    (
        r"^(get|create|make|new)(_preset|_spec|_encoding|_rope)?$",
        (
            'posenc.RoPE(64, pairing="half") or another of `posenc list`, and of a family '
            'posenc.preset("llama3", 128)'
        ),
    ),
    (r"^(patch|inject|monkey\w*|swap|surgery)|^adopt_", "posenc.torch.adopt(model)"),
    (r"assert|all_?close|equal|^same", "posenc.diff(a, b), whose .verdict says it"),
    (r"^(plots?|plotting|viz|graphics|figures?)$", "posenc.plot, with spec.plot() for most"),
    (
        r"^(hf|transformers|hugging_?face|vllm|sglang|diffusers|llama_?cpp|gguf)$",
        (
            "posenc.explain(CONFIG), which reads configs of transformers, diffusers and engines, "
            "and posenc.torch.adopt(model), which puts exact angles into a loaded model"
        ),
    ),
    (r"^(flex_?|block_?)(attention|mask|mod)", "posenc.torch.score_mod(spec)"),
    (r"attention$|^sdpa|^flash|^mha", "posenc.torch.attend(q, k, v, spec)"),
    (
        r"mask",
        "spec.bias(n), added to scores; a causal mask is the caller's, as in posenc.torch.attend",
    ),
    (
        r"^(from_(dict|name|text|str\w*|json\w*|spec)|parse)$",
        "posenc.from_json(text) for a spec, posenc.from_hf(config) for the config of a model",
    ),
    (r"_gguf$", 'posenc.from_gguf("model.gguf")'),
    (
        r"^from_(torch|model|checkpoint|state_dict|weights|params|meta|mistral|vllm)",
        "posenc.explain(CONFIG, folder or model), whose layers[0].spec is the encoding",
    ),
    (
        r"^from_(table|array|numpy|values|weight|npy|file|tensor)",
        "posenc.identify(array).findings[0].spec, the rule that an array follows",
    ),
    (
        r"^(spec|encodings?|base_?encoding|registry)$",
        'posenc.RoPE(64, pairing="half"), posenc.Sinusoidal(512) or another of `posenc list`',
    ),
    (
        r"^(adopt|adopting|release|attend|(score|packed_mask|alibi_mask)_mod|tracing|rope_types)$",
        "posenc.torch.NAME",
    ),
    (r"^(nn|modules?|layers|pytorch)$", "posenc.torch, the modules of PyTorch"),
    (
        r"^(jax|numpy|flax|mlx|np|jnp|tf|tensorflow|keras|cupy|fast|ops|math)$",
        "posenc.rotate and the other verbs, which take arrays of any library",
    ),
    (r"^(cite|quiz|study|explore)$", "a command: `posenc NAME`"),
    (
        r"lesson|tutorial|^(teach|course|learn)",
        'posenc.learn.lesson("rope"), or another of posenc.learn.topics()',
    ),
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
