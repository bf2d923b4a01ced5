"""One page on a port: it ends in the right line, says what was compared, and runs what is named."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.numpy import save_file

import posenc
from posenc.cli import app
from posenc.detect.contract import diff
from posenc.detect.subject import plan
from tests.detect.checkpoints import folder_of
from tests.detect.doctor import ports
from tests.detect.doctor.cases import CASES, LLAMA, NEOX, TRAINED, TURNED, WITH
from tests.detect.facts import folders
from tests.drawing import drawn

LATER = (
    "testing/diagnosis.py",
    "testing/doctor.py",
    "detect/contract",
    "detect/subject",
    "detect/fit",
)


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a survey finds in many calls is held beside it; a port here is asked in some."""
    monkeypatch.setattr(plan, "DRAWN", 8)
    monkeypatch.setattr(plan, "STRETCHES", 8)


@pytest.mark.costly
@pytest.mark.parametrize("name", drawn([*CASES], 6, *LATER))
def test_it_ends_in_the_right_line(name: str, tmp_path: Path) -> None:
    """The first fault and its line, in the words of the verb that found it."""
    case = CASES[name]
    model = case.model(tmp_path / "m") if callable(case.model) else case.model
    found = posenc.doctor(model, copy.deepcopy(case.engine))  # one remembers its calls
    first = found.faults[0]
    change = first.change.replace(f" {tmp_path}/m", "").replace(", in the config of", "")
    assert case.fault in first.text
    assert case.change in change
    assert (found.verdict, found.exit_code) == ("differs", 1)
    assert first.call or case.engine is None or isinstance(case.engine, dict)


RIGHT = {
    "a port": (LLAMA, ports.half),
    "buffers and a port": ({**TRAINED, **folders.buffers(folders.ladder())}, ports.half),
    "another config": (LLAMA, LLAMA),
    "heads that turn in part": (NEOX, ports.quarter),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", RIGHT)
def test_where_nothing_is_wrong_it_says_what_was_compared(name: str, tmp_path: Path) -> None:
    """No fault, and a count of what was looked at."""
    model, engine = RIGHT[name]
    if "model_type" not in model:
        model = folder_of(tmp_path / "m", model, LLAMA)
    found = posenc.doctor(model, engine)
    assert (found.verdict, found.exit_code, found.faults) == ("nothing differs", 0, ())
    assert f"  nowhere: {len(found.compared)} compared" in found.lines()
    assert found.compared


@pytest.mark.slow("testing/diagnosis.py", "testing/doctor.py", "detect/facts", "detect/identify")
def test_a_file_of_torch_is_read_as_others_are(tmp_path: Path) -> None:
    """Without its pickle, which `identify` of a folder does not look for."""
    torch = pytest.importorskip("torch")
    weights = {name: torch.tensor(values) for name, values in WITH["theta"].items()}
    torch.save(weights, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    change = posenc.doctor(tmp_path).faults[0].change
    assert "base 1000000 in place of 10000, by config key rope_theta" in change


def test_frequencies_tell_no_pairing(tmp_path: Path) -> None:
    """A buffer of another base changes the base alone, of a model that pairs neighbours too."""
    weights = {**TURNED, **folders.buffers(folders.ladder(1e6))}
    (fault,) = posenc.doctor(folder_of(tmp_path / "m", weights, folders.config_of("helium"))).faults
    assert ": base 1000000 in place of 10000, by config key rope_theta; or take" in fault.change


def test_weights_that_tell_nothing_are_not_compared(tmp_path: Path) -> None:
    """Random ones have no pairing."""
    rng = np.random.default_rng(0)
    noise = {name: rng.standard_normal(v.shape).astype(v.dtype) for name, v in TRAINED.items()}
    diagnosis = posenc.doctor(folder_of(tmp_path / "m", noise, LLAMA))
    assert (diagnosis.verdict, diagnosis.compared) == ("not compared", ())
    assert diagnosis.not_compared == (
        "the pairing that the config states, against 4 groups of heads",
    )


def test_nothing_compared_is_no_success() -> None:
    """A config alone is held against nothing."""
    found = posenc.doctor(LLAMA)
    assert (found.verdict, found.exit_code) == ("not compared", 3)
    assert "  unknown: nothing was compared" in found.lines()
    assert found.not_compared == ("weights: no file of them is beside the config",)


def test_what_the_caller_states_settles_it(tmp_path: Path) -> None:
    """As of `facts`: a pairing and a base that are stated contradict nothing."""
    turned = folder_of(tmp_path / "turned", TURNED, LLAMA)
    assert posenc.doctor(turned).faults
    assert not posenc.doctor(turned, ports.interleaved, stored="interleaved").faults
    other = folder_of(tmp_path / "other", WITH["theta"], LLAMA)
    assert posenc.doctor(other).faults
    assert not posenc.doctor(other, base=1e6).faults


def test_an_engine_that_pairs_as_the_weights_do_is_not_to_be_changed(tmp_path: Path) -> None:
    """The config is wrong about both."""
    found = posenc.doctor(folder_of(tmp_path / "m", TURNED, LLAMA), ports.interleaved)
    assert [fault.text.partition(":")[0] for fault in found.faults] == ["pairing", "attention"]
    assert found.faults[1].change.startswith("nothing in ")
    assert found.faults[1].change.endswith("--stored interleaved")


def test_what_a_config_leaves_open_is_a_fault_of_it() -> None:
    """And nothing is compared with half a plan."""
    diagnosis = posenc.doctor({**LLAMA, "rope_scaling": {"type": "yarn", "factor": 4}}, ports.half)
    assert "original_max_position_embeddings is missing" in diagnosis.faults[0].text
    assert diagnosis.faults[0].change.startswith("correct the key in config of llama")
    assert diagnosis.not_compared[-2].startswith("the engine: ")


def test_it_says_why_a_verb_refused_the_engine() -> None:
    """With what to hand over, once; nothing of it where no verb refuses."""
    ports_of = {"check: ": lambda x, positions: x, "attention: ": lambda x, lengths, blocks: 1}
    for verb, engine in ports_of.items():
        rows = posenc.doctor(LLAMA, engine).not_compared
        (told,) = (row for row in rows if "Hand over " in row or "hand over " in row)
        assert told.startswith(f"{verb}ask: ")
    assert not any("ask: " in row for row in posenc.doctor(LLAMA, ports.half).not_compared)


def test_faults_are_those_of_diff() -> None:
    """The doctor reads nothing itself."""
    case = CASES["slopes of 12 heads"]
    rows = [row.text for row in diff(case.model, case.engine).rows]
    assert [fault.text for fault in posenc.doctor(case.model, case.engine).faults] == rows


def test_a_number_that_one_line_has_is_shown_by_its_line(tmp_path: Path) -> None:
    """Of a file with the base in one place."""
    file = tmp_path / "port.py"
    file.write_text(
        "import numpy as np\n\nBASE = 12345.0\nwaves = BASE ** -(np.arange(32) / 32)\n\n\n"
        "def angles(positions):\n    return positions[..., None] * waves\n"
    )
    diagnosis = posenc.doctor(LLAMA, posenc.testing.load(f"{file}:angles"))
    assert diagnosis.engine.endswith("port.py, line 7 (angles)")
    assert "port.py, line 3: base 10000" in diagnosis.faults[0].change


def test_a_dtype_that_one_line_has_is_shown_by_its_line(tmp_path: Path) -> None:
    """In a function that the engine calls; and of a config, the weights beside it are read."""
    file = tmp_path / "port.py"
    file.write_text(
        "import numpy as np\n\n\ndef angles(positions):\n    waves = 1e4 ** -(np.arange(32) / 32)\n"
        "    return (positions[..., None] * waves).astype(np.float16)\n\n\n"
        "def cos_sin(positions):\n    return np.cos(angles(positions)), np.sin(angles(positions))\n"
    )
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    weights = {"model.layers.0.input_layernorm.weight": np.ones(256, np.float32)}
    save_file(weights, tmp_path / "model.safetensors")
    engine = posenc.testing.load(f"{file}:cos_sin")
    diagnosis = posenc.doctor(tmp_path / "config.json", engine)
    assert "port.py, line 6: compute positions and angles in float32" in diagnosis.faults[0].change
    assert not any("no file of them" in row for row in diagnosis.not_compared)


def test_the_page_and_its_json_say_the_same(tmp_path: Path) -> None:
    """Each text of the one stands in the other, whole: what prints it wraps it."""
    place = tmp_path / ("long_" * 20)
    found = posenc.doctor(folder_of(place, TURNED, LLAMA), ports.interleaved)
    assert sum(str(place) in line for line in found.lines()) == 2  # the model, and the command
    data = json.loads(json.dumps(found.to_dict()))
    page = "\n".join(found.lines())
    texts = [t for key in ("says", "weights", "compared", "not_compared") for t in data[key]]
    texts += [fault[key] for fault in data["faults"] for key in ("text", "change", "call")]
    assert [text for text in texts if text not in page] == []
    assert data["verdict"] == "differs"


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        (lambda x, p: np.full_like(x, np.nan), "finite"),
        (lambda a, b, c, d: None, "nothing was compared with the engine"),
    ],
)
def test_an_engine_that_gives_nothing_is_not_called_right(engine: Any, says: str) -> None:
    """All NaN, and nothing that can be asked."""
    found = posenc.doctor(LLAMA, engine)
    assert found.exit_code != 0
    assert says in " ".join(found.lines())


# --- the command ----------------------------------------------------------------------------------


def run(*arguments: object) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("port.py:half",), 0, "nowhere:"),
        (("port.py:half", "--base", "500000"), 1, "base: 500000 against 10000"),
        ((), 3, "unknown: nothing was compared"),
        (("port.py:absent",), 2, "port.py has no 'absent'"),
        (("port.py:ends",), 3, "it ended the process"),
        (("https://x.org/port.py:half",), 2, "is an address"),
        (("port.py:half", "--import"), 2, "without a MODEL"),
    ],
)
def test_exit_codes_are_those_of_diff(
    arguments: tuple[str, ...], code: int, says: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """And code that is named stands behind the guard."""
    monkeypatch.chdir(tmp_path)
    Path("port.py").write_text(
        "from tests.detect.doctor.ports import half\n\n"
        "def ends(x, positions):\n    raise SystemExit(0)\n"
    )
    Path("config.json").write_text(json.dumps(LLAMA))
    result = run("config.json", *arguments)
    assert (result.exit_code, says in result.output) == (code, True), result.output


def test_nothing_of_a_model_is_taken_without_one() -> None:
    """`--stored` alone would be read by nobody."""
    assert run("--stored", "half").exit_code == 2
    assert "MODEL is missing" in run("--stored", "half").output


def test_json(tmp_path: Path) -> None:
    """What `to_dict` says."""
    folder = folder_of(tmp_path / "m", TURNED, LLAMA)
    data = json.dumps(posenc.doctor(folder).to_dict())
    assert json.loads(run(folder, "--json").stdout) == json.loads(data)
