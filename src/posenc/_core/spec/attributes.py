"""Attributes that other libraries have, and the call that does that here."""

from __future__ import annotations

from posenc._core.foreign import WHOLE

# Calls that stand for rows of numbers, and for their shape.
ROWS = {
    **WHOLE,
    "table": "spec.table([5]) has the row of position 5, spec.table(n) the first n",
    "rotary": "spec.cos_sin(n) has cosines and sines of n positions, spec.cos_sin([5]) those of "
    "position 5; nothing is kept between calls",
}
LONGER = "Positions have no end but where they are learned: posenc.resize makes more of those"
STRETCH = {
    "table": LONGER,
    "rotary": "RoPE has a field for that: spec.replace(scaling=posenc.scaling.YaRN(…))",
    "bias": LONGER,
    "relative": LONGER,
}
# Attributes in other libraries, and the call here: a sentence, or one for each kind.
ATTRIBUTES: tuple[tuple[str, str | dict[str, str]], ...] = (
    (
        r"freqs?_c\w+|\w*complex\w*|polar",
        {
            **ROWS,
            "rotary": "cos, sin = spec.cos_sin(n) has the parts of cos + 1j * sin, n positions by "
            "the pairs",
        },
    ),
    (r"angles?|phases|m_?thetas?", "np.outer(positions, spec.frequencies) are the angles"),
    (
        r"(equal|same|differ|match)\w*|(is_?|all)*close\w*|compare\w*",
        "a == b compares the fields of two specs, posenc.diff(spec, b) their numbers",
    ),
    (
        r"(test|verify|validate|try)\w*",
        "posenc.check(f, spec=spec) tries code, posenc.infer((x, y, positions)) recorded arrays",
    ),
    (
        r"(source_?)?code|implementation|to_(code|python|c|cpp|rust)|port",
        "inspect.getsource(type(spec)) has its code, posenc.golden(spec) numbers for a port",
    ),
    (r"forward|apply\w*|call|rotate\w*|add\w*|embed|encode|table|bias|cos_sin", WHOLE),
    (
        r"(\w*_)?inv_freqs?|frequencies|wavelengths|freqs?|thetas?_?i?|freq_?bands?|omega|div_term",
        "spec.frequencies has that",
    ),
    (
        (
            r"shape|ndim|size|T|numpy|tolist|data|item|pe|pos_?(emb|enc)\w*|position\w*|weights?|"
            r"encodings?|embeddings?|vectors?|arrays?|tensors?|values|build|generate\w*|"
            r"(cos|sin|cos_?sin\w+|tables|\w*cache\w*|emb|encode|get_\w+|compute_\w+)"
        ),
        ROWS,
    ),
    (r"dtype|device", "A spec has neither; the call that computes takes dtype= and device="),
    (
        (
            r"to|cuda|cpu|half|float|bfloat16|train|eval|(load_)?state_dict|(named_)?parameters_?|"
            r"buffers|modules|register_buffer|requires_grad_?|reset_parameters|((to|as)_)?(torch|module)"
        ),
        "A spec is no module: those are in posenc.torch, such as MODULE(spec)",
    ),
    (
        r"to_json|save\w*|dump\w*|json|as_?dict|config|to_(str\w*|text|yaml)",
        "posenc.to_json(spec) is its text",
    ),
    (
        r"from_(pretrained|config|hf)|load_config",
        'posenc.from_hf("config.json").layers[0].spec is that of a model',
    ),
    (r"from_dict", "posenc.from_json(json.dumps(fields)) makes a spec of what to_dict() gave"),
    (r"(from_)?preset", 'posenc.preset("llama3", 128) is that of a family; see `posenc list`'),
    (r"(from|load)\w*", "posenc.from_json(text) makes a spec of its text"),
    (
        r"(to|as|for)_?(jax|flax|numpy|np|mlx|keras|tensorflow|tf|jnp)|jit\w*|compiled?",
        {k: f"Arrays of all libraries are taken, compiled or not: {v}" for k, v in WHOLE.items()},
    ),
    (
        r"(to|as)_?(hf|hugging_?face|transformers)\w*",
        {
            **WHOLE,
            "rotary": "posenc.torch.rope_parameters(spec.scaling, base=spec.base) is for a config "
            "that transformers reads after posenc.torch.rope_types(), and "
            "posenc.torch.adopt(model) for a loaded model",
        },
    ),
    (
        r"(score|mask)_?mod|flex\w*|block_?mask|(as|to)_mask|attn_mask",
        {
            **WHOLE,
            "bias": "posenc.torch.score_mod(spec) is for flex_attention; the mask of "
            "scaled_dot_product_attention is spec.bias(n)",
        },
    ),
    (
        r"re_?rotate\w*|shift\w*|move\w*|translate|(rot\w*_|shift_)?mat(rix|rices)|R",
        {
            **WHOLE,
            "table": "posenc.shift(spec, k) is the matrix that takes the row of p to that of p + k",
            "rotary": "posenc.rerotate(spec, keys, old, new) moves cached keys, and "
            "spec.rotate(np.eye(spec.dim)[:, None], offset=p)[:, 0].T is the matrix of position p",
        },
    ),
    (
        (
            r"explain|describe|summary|info|help|doc\w*|equation|formula|paper|citations?|"
            r"reference|source|authors?|arxiv|latex|tex|math\w*"
        ),
        "help(type(spec)) has its equation and fields, spec.bibtex its paper",
    ),
    (r"(class_?|type_?)?name|type", "type(spec).__name__ has that, and spec.kind its kind"),
    (
        r"find\w*|decode|position_of|which|where",
        {
            **WHOLE,
            "table": "posenc.locate(spec, row) finds the position of a row",
            "rotary": "posenc.locate(spec, turned, before=x) finds the position of a turned vector",
        },
    ),
    (r"params|learned_\w+|(num_|count_)param\w*", "posenc.init(spec) makes what it learns"),
    (
        r"original_\w+",
        {**STRETCH, "rotary": "spec.scaling has that, where its rule needs it"},
    ),
    (r"attention_scaling|mscale", "spec.attention_factor, of a rotation, has that"),
    (
        (
            r"((set|with|to)_)?(extend\w*|scale|scaled|scaling|interpolate|resize|yarn|"
            r"(dynamic_?)?ntk\w*|linear\w*|long_?rope|llama_?3\w*)"
        ),
        STRETCH,
    ),
    (r"show|draw|heatmap|imshow|visuali[sz]e", "spec.plot() draws it"),
    (r"(flash_?)?attend|attn|sdpa|mha", "posenc.torch.attend(q, k, v, spec) is attention with it"),
    (
        r"(un|de)rotate\w*|inverse\w*|invert|undo\w*|remove\w*|subtract",
        {
            "table": "posenc.table(spec, n) subtracted from x takes it away",
            "rotary": "spec.rotate(x, inverse=True) turns back",
            "bias": "spec.bias(n) subtracted from the scores takes it away",
            "relative": WHOLE["relative"],
        },
    ),
    (
        r"relative|similarit\w*|decay\w*|distance\w*|(dot|relative)_?(product|score)s?|scores?|attention",
        {
            "table": "posenc.similarity(spec, offsets) has its products, posenc.plot.offset(spec) "
            "draws them",
            "rotary": "posenc.relative_score(spec, q, k, offsets) has the scores of a query and a "
            "key, posenc.plot.offset(spec) draws how they decay",
            "bias": "spec.bias(n) is added to the scores, posenc.plot.bias(spec) draws it",
            "relative": WHOLE["relative"],
        },
    ),
    (
        r"slopes?|get_slopes|m",
        "posenc.ALiBi(heads).slopes are those of ALiBi, spec.bias(n) has the numbers",
    ),
    (r"at|row|rows|position|lookup|index|get|select|gather", ROWS),
    (
        r"copy|clone|(set|with)\w*|update|_?replace|evolve",
        "spec.replace(field=value) makes another",
    ),
)

# Names that findings do not have, an attribute of those that the sentence is for, and the sentence.
RESULTS: tuple[tuple[str, str, str], ...] = (
    (
        r"(to|as|save|write|export)_?(hf|config|hugging_?face|transformers)\w*",
        "by_type",
        "posenc.to_hf(config, 'hf5') has a config, posenc.extend(config, n).config() a longer one",
    ),
    (r"extend\w*|scale\w*", "by_type", "posenc.extend(value, n) plans a longer context"),
    (r"diff\w*|compare\w*|check|verify", "by_type", "posenc.diff(value, other) compares it"),
    (r"golden|contract|reference", "by_type", "posenc.golden(value).save('golden.json') writes it"),
    (
        r"scene|build|position\w*|grid|ids",
        "by_type",
        "value.layers[0].positions.build(…) makes those of a grid or a scene, where it is not None",
    ),
    (r"check|verify|diff\w*|compare\w*", "fingerprint", "posenc.diff(value, other) compares it"),
    (
        r"ok|equal|same|success\w*|pass(ed|es)?|match(es)?|is_\w+",
        "verdict",
        "value.verdict says it",
    ),
    (
        r"(max|abs|rel)_\w+|error|delta|distance|size",
        "differences",
        "value.differences[0].size is the largest difference of the first field that differs",
    ),
    (r"index|idx|rows?|pos|which|where", "position", "value.position has it, or value.positions"),
    (r"plot|show|draw|figure", "spec", "value.spec.plot() draws it"),
    (r"show|display|view", "to_bytes", "value.figure is that of matplotlib, a notebook shows it"),
    (
        r"(write|dump|export|save)\w*|to_(file|json|png|svg|pdf)",
        "save",
        "value.save(path) writes it",
    ),
    (
        r"(rope_)?(scaling|parameters)|(to_)?(save|write|dump|json|export)\w*|text_config",
        "switches",
        "value.config() has the config, a dictionary",
    ),
    (
        r"save\w*|write\w*|dump\w*|(to_)?json|export\w*",
        "to_dict",
        "json.dumps(value.to_dict()) writes it",
    ),
    (
        r"summary|report|text|pprint|describe|format|to_string|render|explain|print\w*|message",
        "__str__",
        "print(value) shows it",
    ),
)
