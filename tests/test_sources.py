"""Model references, files, and the Hub: the real client against a Hub on loopback."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hub_server import FakeHub, Repo, Trouble, blob, closed_port

from llmcalc import data, sources
from llmcalc.errors import LlmcalcError, SourceError, UsageError, printable

ROOT = Path(__file__).resolve().parent.parent
QWEN = {"model_type": "qwen3", "num_hidden_layers": 36}
COMMIT = "b968826d9c46dd6066d109eabc6255188de91218"
TOKEN = "hf_averysecrettoken"

# A process of its own, because the client reads its settings from the environment when it is imported.
ASKER = """
import json, sys
from pathlib import Path
from llmcalc import data, errors, sources
data.bundled = lambda folder: Path(sys.argv[1])
for line in sys.stdin:
    reference, options = json.loads(line)
    try:
        found = sources.find(reference, **options)
        answer = {name: getattr(found, name) for name in found.__slots__}
    except errors.LlmcalcError as e:
        answer = {"code": e.code, "message": e.message, "hint": e.hint, "exit": e.exit_code}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundled models."""
    folder = tmp_path_factory.mktemp("models")
    facts = {
        "id": "Qwen/Qwen3-8B",
        "source": "the Hub",
        "revision": COMMIT,
        "date": "2026-08-01",
        "published_params": 8,
    }
    (folder / "Qwen--Qwen3-8B.json").write_text(json.dumps({**QWEN, "_llmcalc": facts}))
    (folder / "Qwen--Qwen3-0.6B.json").write_text(json.dumps({**QWEN, "_llmcalc": {"date": "2026-08-02"}}))
    (folder / "gpt2.json").write_text(json.dumps({"model_type": "gpt2", "n_layer": 12}))
    (folder / "nvidia--X-FP4.json").write_text(json.dumps(QWEN))
    (folder / "nvidia--X-FP4.quant.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    return folder


@pytest.fixture
def bundle(models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(data, "bundled", lambda folder: models)
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    return models


@dataclass
class Asker:
    process: subprocess.Popen[str]
    stderr: Path
    home: Path

    def __call__(self, reference: str, **options: Any) -> SimpleNamespace:
        """A Source, or the error, as attributes; what was written to stderr is the test's failure."""
        assert self.process.stdin and self.process.stdout
        start = time.monotonic()
        self.process.stdin.write(json.dumps([reference, options]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        noise = self.stderr.read_text()
        assert noise == ""
        return SimpleNamespace(**json.loads(line), text=line, seconds=time.monotonic() - start)


Ask = Callable[..., Asker]


@pytest.fixture(scope="module")
def askers(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Starts a process with HF_HOME (its own unless given) and other variables."""
    started: list[Asker] = []

    def start(home: Path | None = None, **variables: str) -> Asker:
        home = home or tmp_path_factory.mktemp("hf")
        stderr = tmp_path_factory.mktemp("asker") / "stderr"
        env = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG") if name in os.environ}
        env |= {"PYTHONPATH": str(ROOT), "HF_HOME": str(home), "HOME": str(home), "NO_PROXY": "*"}
        env |= {"HF_HUB_ETAG_TIMEOUT": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "1"} | variables
        with stderr.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, "-c", ASKER, str(models)],
                env=env,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                cwd=ROOT,
            )
        started.append(Asker(process, stderr, home))
        return started[-1]

    yield start
    for asker in started:
        asker.process.kill()
        asker.process.communicate()


@pytest.fixture(scope="module")
def hub_of_module() -> Iterator[FakeHub]:
    hub = FakeHub()
    yield hub
    hub.close()


@pytest.fixture
def hub(hub_of_module: FakeHub) -> FakeHub:
    hub_of_module.next_test()
    return hub_of_module


@pytest.fixture(scope="module")
def ask(askers: Ask, hub_of_module: FakeHub) -> Asker:
    return askers(HF_ENDPOINT=hub_of_module.url)


def failure(reference: str, **options: Any) -> LlmcalcError:
    with pytest.raises(LlmcalcError) as caught:
        sources.find(reference, **options)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


# References ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("Qwen/Qwen3-8B", ("Qwen/Qwen3-8B", None)),
        ("gpt2", ("gpt2", None)),
        ("gpt2@v1", ("gpt2", "v1")),
        ("Qwen/Qwen3-8B/", ("Qwen/Qwen3-8B", None)),
        ("Qwen/Qwen3-8B@main", ("Qwen/Qwen3-8B", "main")),
        ("Qwen/Qwen3-8B@refs/pr/12", ("Qwen/Qwen3-8B", "refs/pr/12")),
        ("Qwen/Qwen3-8B@refs/pr/12/config.json", ("Qwen/Qwen3-8B", "refs/pr/12")),
        ("Qwen/Qwen3-8B@feature%2Fx", ("Qwen/Qwen3-8B", "feature/x")),
        ("hf://Qwen/Qwen3-8B", ("Qwen/Qwen3-8B", None)),
        ("hf://Qwen/Qwen3-8B@v1", ("Qwen/Qwen3-8B", "v1")),
        ("hf://models/Qwen/Qwen3-8B", ("Qwen/Qwen3-8B", None)),
        ("hf://Qwen/Qwen3-8B/config.json", ("Qwen/Qwen3-8B", None)),
        ("https://huggingface.co/Qwen/Qwen3-8B", ("Qwen/Qwen3-8B", None)),
        ("https://huggingface.co/Qwen/Qwen3-8B/", ("Qwen/Qwen3-8B", None)),
        ("https://huggingface.co/Qwen/Qwen3-8B?library=vllm#usage", ("Qwen/Qwen3-8B", None)),
        ("http://www.huggingface.co/Qwen/Qwen3-8B/discussions/7", ("Qwen/Qwen3-8B", None)),
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/main", ("Qwen/Qwen3-8B", None)),
        ("https://huggingface.co/Qwen/Qwen3-8B/blob/v1/config.json", ("Qwen/Qwen3-8B", "v1")),
        ("https://huggingface.co/Qwen/Qwen3-8B/resolve/v1/config.json?download=true", ("Qwen/Qwen3-8B", "v1")),
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/refs%2Fpr%2F3", ("Qwen/Qwen3-8B", "refs/pr/3")),
        ("https://huggingface.co/Qwen/Qwen3-8B/blob/refs/pr/3/config.json", ("Qwen/Qwen3-8B", "refs/pr/3")),
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/feature%2Fx", ("Qwen/Qwen3-8B", "feature/x")),
        (f"https://huggingface.co/Qwen/Qwen3-8B/commit/{COMMIT}", ("Qwen/Qwen3-8B", COMMIT)),
        ("https://huggingface.co/gpt2/tree/main", ("gpt2", None)),
        ("https://huggingface.co/gpt2", ("gpt2", None)),
        ("huggingface.co/Qwen/Qwen3-8B/blob/main/config.json", ("Qwen/Qwen3-8B", None)),
        ("hf.co/Qwen/Qwen3-8B", ("Qwen/Qwen3-8B", None)),
        ("https://mirror.example/hub/Qwen/Qwen3-8B/tree/main", ("Qwen/Qwen3-8B", None)),
    ],
)
def test_hub_reference(reference: str, expected: tuple[str, str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example/hub/")
    assert sources.parse_hub_reference(reference) == expected


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("", "no model was given"),
        ("   ", "no model was given"),
        ("a/b/c", "more than one slash"),
        ("Qwen/\x1b[31mQwen3", r"Qwen/\x1b[31mQwen3 holds control characters"),
        ("Qwen/Qwen3\nError: x", r"Qwen/Qwen3\nError: x holds control characters"),
        ("[bold]x[/bold]", "[bold]x[/bold] is not a model id"),
        ("Qwen/Qwen3\u202e8B", r"Qwen/Qwen3\u202e8B is not a model id"),
        ("org/-name", "org/-name is not a model id"),
        ("org/a--b", "org/a--b is not a model id"),
        ("org/name.git", "org/name.git is not a model id"),
        ("x" * 97, "x" * 97 + " is not a model id"),
        ("x" * 5000, "…"),
        ("org/name@", "an empty name is not a revision"),
        ("org/name@..%2F..%2Fx", "../../x is not a revision"),
        ("org/name@a%2F..%2F..%2Fx", "a/../../x is not a revision"),
        ("org/name@%2Fetc", "/etc is not a revision"),
        ("org/name@a b", "a b is not a revision"),
        ("hf://org/name/unet/config.json", "points inside the repository"),
        ("https://huggingface.co/datasets/org/name", "datasets/org is a dataset, not a model"),
        ("https://huggingface.co/spaces/org/name/tree/main", "is a space, not a model"),
        ("hf://datasets/org/name", "is a dataset, not a model"),
        ("datasets/squad", "is a dataset, not a model"),
        ("https://user:hunter2@example.com/org/name", "example.com is not the Hub"),
        ("https://huggingface.co/", "an empty name is not a model id"),
        ("https://[bold]/x", "is not the Hub"),
    ],
)
def test_bad_reference(reference: str, says: str, bundle: Path) -> None:
    problem = failure(reference)
    assert isinstance(problem, UsageError)
    assert (problem.code, problem.exit_code) == ("bad-reference", 2)
    assert says in problem.message
    assert "hunter2" not in problem.message
    assert len(problem.message) < 200
    assert problem.message.isprintable()


@pytest.mark.parametrize(
    ("reference", "base"),
    [
        ("Qwen/Qwen3-0.6B-GGUF:Q4_K_M", "Qwen/Qwen3-0.6B"),
        ("Qwen/Qwen3-8B:Q4_K_M", "Qwen/Qwen3-8B"),
        ("bartowski/Qwen_Qwen3-8B-GGUF:Q8_0", "Qwen/Qwen3-8B"),
        ("unknown/Thing-gguf:Q8_0", "unknown/Thing"),
        ("https://huggingface.co/Qwen/Qwen3-8B-GGUF/blob/main/Qwen3-8B-Q4_K_M.gguf", "Qwen/Qwen3-8B"),
    ],
)
def test_gguf_names_the_base_model(reference: str, base: str, bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    problem = failure(reference, offline=True)
    assert (problem.code, problem.exit_code) == ("offline-not-cached", 1)
    assert problem.hint and problem.hint.endswith(f"; or take its shape from `model={base}`")


@pytest.mark.parametrize("path", ["./Qwen3-8B-Q4_K_M.gguf", "qwen3-8b-UD-Q2_K_XL-00001-of-00003.gguf"])
def test_gguf_file_that_is_not_there(path: str, bundle: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    problem = failure(path)
    assert (problem.code, problem.exit_code) == ("file-unreadable", 1)
    assert problem.hint == "check the path, or try `model=Qwen/Qwen3-8B`"
    assert failure("weights.gguf").hint == "give the path of a weight file"


def test_options_that_contradict(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    for problem in (
        failure("Qwen/Qwen3-8B", offline=True, refresh=True),
        failure("Qwen/Qwen3-8B@v1", revision="v2"),
        failure(str(tmp_path), revision="v2"),
    ):
        assert (problem.code, problem.exit_code) == ("bad-option", 2)


def test_printable() -> None:
    assert printable("Qwen/Qwen3 – 漢字 [bold]") == "Qwen/Qwen3 – 漢字 [bold]"
    assert printable("a\x1b[31m\n\x9b\udc80") == r"a\x1b[31m\n\x9b\udc80"
    assert printable("x" * 120) == "x" * 120
    assert printable("x" * 121) == "x" * 119 + "…"


# Bundled -------------------------------------------------------------------------------------------------------------


def test_bundled(bundle: Path) -> None:
    assert sources.bundled_ids() == ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B", "gpt2", "nvidia/X-FP4"]
    found = sources.find("qwen/qwen3-8b")
    assert (found.id, found.kind, found.revision, found.notes) == ("Qwen/Qwen3-8B", "bundled", COMMIT, ())
    assert found.config == QWEN
    assert found.facts["published_params"] == 8
    assert sources.find("Qwen/Qwen3-8B", revision=COMMIT, offline=True) == found
    assert sources.find(f"https://huggingface.co/Qwen/Qwen3-8B/tree/{COMMIT}") == found


def test_bundled_without_a_commit_has_its_date(bundle: Path) -> None:
    assert sources.find("Qwen/Qwen3-0.6B").revision == "2026-08-02"
    assert sources.find("gpt2").revision is None


def test_bundled_quant(bundle: Path) -> None:
    assert sources.find("nvidia/X-FP4").quant == {"quantization": {"quant_algo": "NVFP4"}}
    assert sources.find("gpt2").quant is None


def test_bundled_unknown(bundle: Path) -> None:
    with pytest.raises(SourceError, match="Qwen/Qwen3-7B is not a bundled model") as caught:
        sources.read_bundled("Qwen/Qwen3-7B")
    assert caught.value.hint == "did you mean Qwen/Qwen3-8B or Qwen/Qwen3-0.6B?"


def test_no_bundled_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(data, "bundled", lambda folder: tmp_path / "absent")
    assert sources.bundled_ids() == []


def test_bundled_needs_no_client(models: Path) -> None:
    code = (
        "import sys, pathlib\nfrom llmcalc import data, sources\ndata.bundled = lambda f: pathlib.Path(sys.argv[1])\n"
        "assert sources.find('Qwen/Qwen3-8B').kind == 'bundled'\n"
        "print(sorted({'huggingface_hub', 'numpy', 'httpx', 'httpx2', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(models)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_folder_of_the_same_name(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "config.json").write_text(json.dumps({"model_type": "mine"}))
    assert sources.find("gpt2").kind == "bundled"
    assert sources.find("gpt2").notes == ("a folder ./gpt2 exists too; gpt2 was taken as a model id",)
    assert sources.find("./gpt2").config == {"model_type": "mine"}


def test_file_of_the_same_name_wins(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").write_text(json.dumps({"model_type": "mine"}))
    assert (sources.find("gpt2").kind, sources.find("gpt2").config) == ("file", {"model_type": "mine"})


def test_deep_folder_is_nobodys_id(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "config.json").write_text(json.dumps(QWEN))
    assert (sources.find("a/b/c").id, sources.find("a/b/c").kind) == ("a/b/c", "file")


# Files ---------------------------------------------------------------------------------------------------------------


def test_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("\ufeff" + json.dumps({**QWEN, "_llmcalc": {"date": "x"}}), encoding="utf-8")
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {}}')
    for reference in (str(tmp_path), f"{tmp_path}/", str(tmp_path / "config.json")):
        found = sources.find(reference)
        assert (found.id, found.kind, found.revision) == (reference, "file", None)
        assert (found.config, found.quant, found.facts) == (QWEN, {"quantization": {}}, {"date": "x"})


def test_file_takes_only_its_own_quant(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(QWEN))
    (tmp_path / "hf_quant_config.json").write_text('{"of": "config.json"}')
    assert sources.find(str(tmp_path / "a.json")).quant is None
    (tmp_path / "a.quant.json").write_text('{"of": "a"}')
    assert sources.find(str(tmp_path / "a.json")).quant == {"of": "a"}


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    assert sources.find("~/config.json").id == "~/config.json"


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (b"", "not-json", "is not JSON"),
        (b"{", "not-json", "is not JSON (line 1"),
        (b"[" * 100_000, "not-json", "nested too deeply"),
        (b"\xff\xfe{\x00}\x00", "file-not-text", "is not UTF-8"),
        (b"[]", "not-a-config", "is a list, not an object"),
        (b"3", "not-a-config", "is a number, not an object"),
        (b"null", "not-a-config", "is null, not an object"),
        (b"{}", "not-a-config", "neither model_type, architectures nor a number of layers"),
        (b'{"quantization_config": {"bits": 4}}', "not-a-config", "neither"),
        (b'{"text_config": {}}', "not-a-config", "neither"),
        (b'{"x": "' + b"x" * data.MAX_CONFIG_BYTES + b'"}', "file-too-large", "33,554,432 bytes"),
    ],
)
def test_file_that_is_no_config(content: bytes, code: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    problem = failure(str(path))
    assert isinstance(problem, SourceError)
    assert problem.code == code
    assert says in problem.message


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["X"]},
        {"text_config": {"hidden_size": 1}},
        {"num_layers": 28, "multi_query_group_num": 2},
        {"dim": 4096, "n_layers": 32},
    ],
)
def test_file_that_is_a_config(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert sources.find(str(tmp_path)).config == config


def test_adapter_names_its_base(tmp_path: Path) -> None:
    adapter = {"peft_type": "LORA", "base_model_name_or_path": "Qwen/Qwen3-8B", "loftq_config": {"x": 1}}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter))
    problem = failure(str(tmp_path / "adapter_config.json"))
    assert (problem.code, problem.hint) == (
        "not-a-config",
        "it belongs to an adapter of Qwen/Qwen3-8B: give that model",
    )


def test_missing_path(tmp_path: Path) -> None:
    problem = failure("./absent/config.json")
    assert (problem.code, problem.exit_code) == ("file-unreadable", 1)
    assert problem.message == "cannot read absent/config.json: no such file or directory"
    assert failure(str(tmp_path)).code == "no-config"
    assert failure("./" + "x" * 3000).code == "file-unreadable"


def test_a_folder_that_may_not_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Any) -> list[str]:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "model").mkdir()
    monkeypatch.setattr(os, "listdir", denied)
    problem = failure(str(tmp_path / "model"))
    assert (problem.code, problem.message) == ("file-unreadable", f"cannot list {tmp_path / 'model'}: permission denied")
    (tmp_path / "model" / "config.json").write_text(json.dumps(QWEN))
    found = sources.find(str(tmp_path / "model"))
    with pytest.raises(SourceError) as caught:
        sources.weight_files(found)
    assert caught.value.code == "file-unreadable"


def test_broken_quant_beside_is_not_ignored(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    (tmp_path / "hf_quant_config.json").write_text("[]")
    problem = failure(str(tmp_path))
    assert (problem.code, "hf_quant_config.json is a list" in problem.message) == ("not-a-config", True)


def test_stdin() -> None:
    piped = io.TextIOWrapper(io.BytesIO(json.dumps(QWEN).encode("utf-8-sig")), encoding="ascii")
    found = sources.find("-", stdin=piped)
    assert (found.id, found.kind, found.config) == ("stdin", "stdin", QWEN)
    assert sources.find("-", stdin=io.StringIO(json.dumps(QWEN))).config == QWEN
    assert failure("-", stdin=io.StringIO(" \n")).message == "stdin is empty"
    assert failure("-", stdin=io.StringIO("x")).code == "not-json"


# The Hub -------------------------------------------------------------------------------------------------------------


def test_fetch_asks_for_the_config_and_nothing_else(hub: FakeHub, ask: Asker) -> None:
    commit = hub.add("org/plain", {"config.json": QWEN, "model.safetensors": b"x", "modeling.py": b"raise SystemExit"})
    found = ask("org/plain")
    assert (found.id, found.kind, found.revision, found.notes) == ("org/plain", "hub", commit, [])
    assert (found.config, found.quant, found.facts) == (QWEN, None, {})
    asked = hub.paths()
    assert {path.split("/")[-1] for path in asked} == {"config.json", "hf_quant_config.json"}
    assert [path for path in asked if path.startswith("GET")] == [f"GET /api/resolve-cache/models/org/plain/{commit}/config.json"]

    again = ask("org/plain")
    assert (again.kind, again.config) == ("hub", QWEN)
    assert hub.paths() == [
        "HEAD /org/plain/resolve/main/config.json",
        f"HEAD /api/resolve-cache/models/org/plain/{commit}/config.json",
    ]


def test_fetch_quant_file(hub: FakeHub, ask: Asker) -> None:
    quant = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
    config = {**QWEN, "quantization_config": {"quant_method": "modelopt"}}
    hub.add("org/quant", {"config.json": config, "hf_quant_config.json": quant})
    assert ask("org/quant").quant == quant
    hub.paths()
    assert ask("org/quant").quant == quant
    assert len(hub.paths()) == 2
    assert ask("org/quant", offline=True).quant == quant


def test_no_quant_file_is_looked_for_when_the_config_names_another_method(hub: FakeHub, ask: Asker) -> None:
    hub.add("org/awq", {"config.json": {**QWEN, "quantization_config": {"quant_method": "awq"}}})
    assert ask("org/awq").quant is None
    assert not [path for path in hub.paths() if "quant" in path]


def test_quant_file_that_cannot_be_asked_for_is_a_note(hub: FakeHub, ask: Asker) -> None:
    hub.add("org/halfway", {"config.json": QWEN})
    hub.trouble["org/halfway"] = Trouble(500, only="hf_quant_config.json")
    found = ask("org/halfway")
    assert found.config == QWEN
    assert found.notes[0].startswith("could not look for hf_quant_config.json of org/halfway (")
    assert found.seconds < 10


@pytest.mark.parametrize("revision", ["v1.0", "dev", "refs/pr/3", "feature/x"])
def test_revisions(hub: FakeHub, ask: Asker, revision: str) -> None:
    hub.add("org/revs", {"config.json": QWEN})
    commit = hub.add("org/revs", {"config.json": {**QWEN, "at": revision}}, ref=revision)
    for found in (
        ask("org/revs", revision=revision),
        ask("org/revs@" + (revision if revision.startswith("refs/") else revision.replace("/", "%2F"))),
        ask("org/revs", revision=commit),
        ask("org/revs", revision=revision, offline=True),
    ):
        assert (found.config["at"], found.revision) == (revision, commit)


def test_commit_in_the_cache_asks_nothing(hub: FakeHub, ask: Asker) -> None:
    commit = hub.add("org/pinned", {"config.json": QWEN})
    assert ask("org/pinned").kind == "hub"
    hub.paths()
    found = ask(f"org/pinned@{commit}")
    assert (found.kind, found.revision, hub.paths()) == ("hub-cache", commit, [])
    assert ask(f"org/pinned@{commit}", refresh=True).kind == "hub"
    assert [path for path in hub.paths() if path.startswith("GET")]


def test_new_commit_is_noticed_and_remembered(hub: FakeHub, ask: Asker) -> None:
    old = hub.add("org/moving", {"config.json": QWEN})
    assert ask("org/moving").revision == old
    new = hub.add("org/moving", {"config.json": {**QWEN, "new": True}})
    assert ask("org/moving", offline=True).revision == old
    assert (ask("org/moving").revision, ask("org/moving").config["new"]) == (new, True)
    assert ask("org/moving@main", offline=True).revision == new


def test_renamed_repository(hub: FakeHub, ask: Asker) -> None:
    commit = hub.add("openai-community/gpt3", {"config.json": QWEN})
    hub.repos["gpt3"] = Repo({}, {}, renamed_to="openai-community/gpt3")
    found = ask("gpt3")
    assert (found.id, found.kind, found.revision) == ("gpt3", "hub", commit)


def test_pasted_address_of_the_endpoint(hub: FakeHub, ask: Asker) -> None:
    hub.add("org/pasted", {"config.json": QWEN})
    assert ask(f"{hub.url}/org/pasted/blob/main/config.json").id == "org/pasted"


def test_bundled_model_from_the_hub(hub: FakeHub, ask: Asker) -> None:
    commit = hub.add("Qwen/Qwen3-8B", {"config.json": {**QWEN, "newer": True}})
    assert (ask("Qwen/Qwen3-8B").kind, ask(f"Qwen/Qwen3-8B@{COMMIT}").kind, hub.paths()) == ("bundled", "bundled", [])
    assert ask("Qwen/Qwen3-8B", refresh=True).revision == commit
    assert ask("Qwen/Qwen3-8B@main").config["newer"] is True


def test_refresh_mends_a_damaged_cache(hub: FakeHub, ask: Asker) -> None:
    hub.add("org/damaged", {"config.json": QWEN})
    assert ask("org/damaged").config == QWEN
    (cached,) = ask.home.glob("hub/models--org--damaged/snapshots/*/config.json")
    cached.write_bytes(b'{"model_')
    broken = ask("org/damaged")
    assert broken.code == "not-json"
    assert "refresh" in broken.hint
    assert ask("org/damaged", refresh=True).config == QWEN
    assert ask("org/damaged", offline=True).config == QWEN


GATED = "org/gated is gated: its terms must be accepted first"
GATED_HINT = "accept them at {url}/org/gated, then `hf auth login` or set HF_TOKEN; or give a config.json file"


@pytest.mark.parametrize(
    ("reference", "trouble", "code", "message", "hint"),
    [
        ("org/absent", None, "model-not-found", "org/absent was not found on {host}, or is private", "check the name"),
        ("Qwen/Qwen3-9B", None, "model-not-found", "Qwen/Qwen3-9B was not found", "did you mean Qwen/Qwen3-8B"),
        ("org/gated", None, "gated", GATED, GATED_HINT),
        ("org/there@nope", None, "revision-not-found", "org/there has no revision nope", "{url}/org/there/tree/main"),
        ("org/empty", None, "no-config", "org/empty has no config.json", "the model that it was made from"),
        ("Qwen/Qwen3-0.6B-GGUF", None, "no-config", "has no config.json", "try `model=Qwen/Qwen3-0.6B`"),
        ("org/there1", Trouble(429, {"Retry-After": "300"}), "rate-limited", "fewer requests", "again in 300 s"),
        ("org/there2", Trouble(429, {"RateLimit": '"resolvers";r=0;t=290'}), "rate-limited", "fewer", "again in 290 s"),
        ("org/there3", Trouble(500), "server-error", "{host} has a problem of its own (HTTP 500)", "later"),
        ("org/there4", Trouble(503, {"Retry-After": "300"}), "server-error", "(HTTP 503)", "later"),
        ("org/there5", Trouble(403), "refused", "{host} refuses org/there5 (HTTP 403)", "token"),
        ("org/there6", Trouble(200, body=b"<html>"), "network", "does not answer as a Hub does", "proxy"),
        ("org/there7", Trouble(delay_s=30), "timeout", "{host} did not answer in time", "HF_HUB_ETAG_TIMEOUT"),
        ("org/there8", Trouble(429, {"Retry-After": "300"}, methods=("GET",)), "rate-limited", "fewer requests", "again in 300 s"),
        ("org/there9", Trouble(500, methods=("GET",)), "server-error", "(HTTP 500)", "later"),
        ("org/there10", Trouble(delay_s=30, methods=("GET",)), "timeout", "did not answer in time", "again"),
        ("org/words", None, "not-json", "config.json of org/words is not JSON (line 1", "refresh"),
        ("org/list", None, "not-a-config", "config.json of org/list is a list", "config.json"),
        ("org/other", None, "not-a-config", "config.json of org/other is not a model's config", "config.json"),
    ],
)
def test_failures(hub: FakeHub, ask: Asker, reference: str, trouble: Trouble | None, code: str, message: str, hint: str) -> None:
    hub.add("org/gated", {"config.json": QWEN}, gated=True)
    hub.add("org/there", {"config.json": QWEN})
    hub.add("org/empty", {"README.md": b"x"})
    hub.add("Qwen/Qwen3-0.6B-GGUF", {"Qwen3-0.6B-Q8_0.gguf": b"GGUF"})
    hub.add("org/words", {"config.json": b"<html>"})
    hub.add("org/list", {"config.json": []})
    hub.add("org/other", {"config.json": {"a": 1}})
    if trouble:  # a repository for each: a call that was left behind keeps the client's lock on its file
        hub.add(reference, {"config.json": QWEN})
        hub.trouble[reference] = trouble
    problem = ask(reference)
    assert (problem.code, problem.exit) == (code, 1)
    assert message.format(host=hub.host) in problem.message
    assert hint.format(url=hub.url) in problem.hint
    assert "\n" not in problem.message + problem.hint
    assert problem.seconds < 5
    asked = [path for path in hub.paths() if f"/{reference.partition('@')[0]}/" in path]
    assert {path.rpartition("/")[2] for path in asked} == {"config.json"}


def test_hostile_reference_asks_nothing(hub: FakeHub, ask: Asker) -> None:
    for reference in ("org/\x1b[2Jname", "[bold]org[/bold]/name", "org/name@../../../etc", "org/" + "x" * 9000):
        assert ask(reference).code == "bad-reference"
    assert hub.paths() == []


def test_a_warning_of_the_hub_stays_off_stderr(hub: FakeHub, ask: Asker) -> None:
    hub.trouble["org/warned"] = Trouble(500, {"X-HF-Warning": "Topic; you are using an old client"})
    assert ask("org/warned").code == "server-error"  # the asker fails on any stderr


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        (Trouble(503), "(HTTP 503); using the cached copy at commit "),
        (Trouble(429, {"Retry-After": "300"}), "asks for fewer requests; using the cached copy at commit "),
        (Trouble(delay_s=30), "did not answer in time; using the cached copy at commit "),
        (Trouble(401, {"X-Error-Code": "GatedRepo"}), "is gated: its terms must be accepted first; using the cached"),
        (Trouble(404, {"X-Error-Code": "RepoNotFound"}), "or is private; using the cached copy"),
    ],
)
def test_cache_serves_when_the_hub_does_not(hub: FakeHub, ask: Asker, trouble: Trouble, says: str) -> None:
    commit = hub.add("org/cached", {"config.json": QWEN})
    assert ask("org/cached").kind == "hub"
    hub.trouble["org/cached"] = trouble
    found = ask("org/cached")
    assert (found.kind, found.revision, found.config) == ("hub-cache", commit, QWEN)
    assert says in found.notes[0]
    assert commit in found.notes[0]
    assert found.seconds < 5
    assert ask("org/cached", refresh=True).code  # asked for the Hub itself: its failure is the answer


def test_network_down(hub: FakeHub, ask: Asker, askers: Ask) -> None:
    commit = hub.add("org/warm", {"config.json": QWEN})
    assert ask("org/warm").kind == "hub"
    port = closed_port()
    down = askers(ask.home, HF_ENDPOINT=f"http://user:hunter2@127.0.0.1:{port}")
    cold = down("org/cold")
    assert (cold.code, cold.exit) == ("network", 1)
    assert cold.message == f"cannot reach 127.0.0.1:{port}: connection refused"
    assert "hunter2" not in cold.text
    warm = down("org/warm")
    assert (warm.kind, warm.config, warm.revision) == ("hub-cache", QWEN, commit)
    assert warm.notes == [f"cannot reach 127.0.0.1:{port}: connection refused; using the cached copy at commit {commit}"]
    assert max(cold.seconds, warm.seconds) < 5


def test_offline_opens_no_connection(hub: FakeHub, ask: Asker) -> None:
    main = hub.add("org/off", {"config.json": QWEN})
    tag = hub.add("org/off", {"config.json": {**QWEN, "tag": 1}}, ref="v1.0")
    assert (ask("org/off").revision, ask("org/off@v1.0").revision) == (main, tag)
    hub.paths()
    for reference, commit in (("org/off", main), ("org/off@main", main), ("org/off@v1.0", tag)):
        found = ask(reference, offline=True)
        assert (found.kind, found.revision, found.notes) == ("hub-cache", commit, [])
    unknown = ask("org/off@v2.0", offline=True)
    assert (unknown.code, unknown.exit) == ("offline-not-cached", 1)
    listed = f"main ({main[:12]}), v1.0 ({tag[:12]})"
    assert unknown.message == f"org/off is not cached at revision v2.0; cached: {listed}"
    cold = ask("Qwen/Qwen3-7B", offline=True)
    assert (cold.code, cold.message) == (
        "offline-not-cached",
        "Qwen/Qwen3-7B is neither bundled nor cached, and the network is off",
    )
    assert "Qwen/Qwen3-8B" in cold.hint
    assert hub.paths() == []
    assert ask("org/off").kind == "hub"  # offline for one call is not offline for the next


def test_offline_by_the_hubs_own_variable(hub: FakeHub, ask: Asker, askers: Ask) -> None:
    main = hub.add("org/var", {"config.json": QWEN})
    assert ask("org/var").kind == "hub"
    hub.paths()
    off = askers(ask.home, HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1", HF_TOKEN=TOKEN)
    assert (off("org/var@main").kind, off("org/var@main").revision) == ("hub-cache", main)
    assert f"main ({main[:12]})" in off("org/var@v9").message
    assert off("org/never").code == "offline-not-cached"
    assert off("org/var", refresh=True).code == "bad-option"
    assert hub.paths() == []


def test_token_is_sent_and_never_shown(hub: FakeHub, askers: Ask) -> None:
    hub.add("org/private", {"config.json": QWEN})
    hub.add("org/locked", {"config.json": QWEN}, gated=True)
    hub.trouble["org/expired"] = Trouble(401, {"X-Error-Message": "Invalid credentials in Authorization header"})
    hub.trouble["org/echo"] = Trouble(400, {"X-Error-Message": f"bad header: Bearer {TOKEN}"})
    with_token = askers(HF_ENDPOINT=hub.url, HF_TOKEN=TOKEN)
    answers = [with_token(f"org/{name}") for name in ("private", "locked", "expired", "echo", "missing")]
    assert answers[0].kind == "hub"
    assert [answer.code for answer in answers[1:]] == ["gated", "bad-token", "refused", "model-not-found"]
    assert {request.headers.get("authorization") for request in hub.requests} == {f"Bearer {TOKEN}"}
    assert not any(TOKEN in answer.text for answer in answers)


WEIGHTS = """
import json
from llmcalc import sources
found = sources.find("org/moved")
print(json.dumps([found.config, sources.weight_files(found).tensor_bytes]))
"""


def test_token_stays_with_the_hub_when_a_file_lies_elsewhere(hub: FakeHub, tmp_path: Path) -> None:
    """Large files are redirected to a store of another host, which may not see the token."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(12)
    store = FakeHub()
    try:
        commit = store.add("org/moved", {"model.safetensors": weights})
        hub.add("org/moved", {"config.json": QWEN, "model.safetensors": weights})
        elsewhere = {"Location": f"{store.url}/org/moved/resolve/{commit}/model.safetensors"}
        hub.trouble["org/moved"] = Trouble(302, elsewhere, only="model.safetensors")
        env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        env |= {"PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path), "HOME": str(tmp_path), "NO_PROXY": "*"}
        env |= {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN}
        done = subprocess.run([sys.executable, "-c", WEIGHTS], env=env, capture_output=True, text=True, cwd=ROOT, check=True)
        assert (json.loads(done.stdout), done.stderr) == ([QWEN, 12], "")
        assert {request.headers.get("authorization") for request in hub.requests} == {f"Bearer {TOKEN}"}
        seen = [{name.lower() for name in request.headers} for request in store.requests]
        assert seen and not any("authorization" in names for names in seen)
    finally:
        store.close()


def test_runs_that_share_a_cache_do_not_disturb_each_other(hub: FakeHub, askers: Ask, tmp_path: Path) -> None:
    hub.add("org/shared", {"config.json": {**QWEN, "filler": "x" * 10**6}})
    several = [askers(tmp_path, HF_ENDPOINT=hub.url, HF_HUB_DOWNLOAD_TIMEOUT="20", HF_HUB_ETAG_TIMEOUT="20") for _ in range(3)]
    for asker in several:  # all are asked before the first answer is read
        assert asker.process.stdin
        asker.process.stdin.write(json.dumps(["org/shared", {}]) + "\n")
        asker.process.stdin.flush()
    for asker in several:
        assert asker.process.stdout
        found = json.loads(asker.process.stdout.readline())
        assert (found["kind"], found["config"]["num_hidden_layers"], len(found["config"]["filler"])) == ("hub", 36, 10**6)


def test_a_huge_config_is_refused_before_it_is_fetched(hub: FakeHub, ask: Asker) -> None:
    hub.add("org/huge", {"config.json": b" " * (data.MAX_CONFIG_BYTES + 1)})
    problem = ask("org/huge")
    assert (problem.code, problem.exit) == ("file-too-large", 1)
    assert problem.message == "config.json of org/huge has 33,554,433 bytes; a model config has at most 33,554,432"
    assert not any(path.startswith("GET") for path in hub.paths())


@pytest.fixture(scope="module")
def distrustful(askers: Ask, hub_of_module: FakeHub, tmp_path_factory: pytest.TempPathFactory) -> Asker:
    """One process with a cache of its own for all that a Hub may try."""
    return askers(tmp_path_factory.mktemp("around") / "home", HF_ENDPOINT=hub_of_module.url)


HASH = "0123456789abcdef0123456789abcdef01234567"
HUGE = b" " * (data.MAX_CONFIG_BYTES + 1)
PACKED = gzip.compress(HUGE, 1)


@pytest.mark.parametrize(
    ("headers", "body", "code", "says"),
    [
        ({"ETag": '"{out}"'}, b"{}", "bad-answer", "answers with the ETag"),
        ({"ETag": '"../../../../../../{out}"'}, b"{}", "bad-answer", "answers with the ETag"),
        ({"X-Linked-Etag": '"..\\\\..\\\\x"', "ETag": f'"{HASH}"'}, b"{}", "bad-answer", "answers with the ETag"),
        ({"ETag": f'"{"a" * 500}"'}, b"{}", "bad-answer", "which is no hash"),
        ({"ETag": f'"{HASH}"', "X-Repo-Commit": "../../../../{out}"}, b"{}", "bad-answer", "answers with the commit"),
        ({"ETag": f'"{HASH}"', "X-Repo-Commit": "main"}, b"{}", "bad-answer", "answers with the commit 'main'"),
        ({"ETag": f'"{HASH}"', "X-Linked-Size": "100"}, HUGE, "file-too-large", "is over 33,554,432 bytes"),
        ({"ETag": f'"{HASH}"', "Content-Encoding": "gzip", "X-Linked-Size": "9"}, PACKED, "file-too-large", "is over 33,554,432 bytes"),
        ({"ETag": f'"{HASH}"', "Content-Encoding": "br"}, b"{}", "bad-answer", "in the encoding 'br'"),
        ({"ETag": f'"{HASH}"', "Content-Encoding": "gzip"}, b"no gzip", "bad-answer", "cannot be unpacked"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("refresh", [False, True])
def test_a_hub_chooses_no_path_and_fills_no_disk(
    hub: FakeHub, distrustful: Asker, tmp_path: Path, headers: dict[str, str], body: bytes, code: str, says: str, refresh: bool
) -> None:
    out, name = tmp_path / "out", f"org/evil-{tmp_path.name}"  # a repository for each: nothing of the one before is cached
    out.write_text("mine")
    given = {"X-Repo-Commit": HASH} | {name: value.format(out=out) for name, value in headers.items()}
    hub.trouble[name] = Trouble(200, given, body)
    problem = distrustful(name, refresh=refresh)
    assert problem.code == code and says in problem.message and problem.exit == 1
    assert out.read_text() == "mine" and [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not [path for path in distrustful.home.rglob("*") if path.is_file() and path.stat().st_size > 1000]
    assert {path.name for path in distrustful.home.parent.iterdir()} <= {"home"}


@pytest.mark.parametrize(
    ("headers", "body", "code", "says"),
    [
        ({"Content-Encoding": "gzip"}, PACKED, "file-too-large", "the list of files of org/Evil-GGUF is over"),
        ({}, HUGE, "file-too-large", "is over 33,554,432 bytes"),
        ({}, {"sha": "../../x", "siblings": []}, "bad-answer", "answers with the commit '../../x'"),
        ({}, {"sha": HASH, "siblings": [{"rfilename": "/etc/passwd", "size": 1}]}, "bad-answer", "answers with the file '/etc/passwd'"),
        ({}, {"sha": HASH, "siblings": [{"rfilename": "a/../../b.gguf", "size": 1}]}, "bad-answer", "no name of a file in a folder"),
        ({}, {"sha": HASH, "siblings": [7, None]}, "bad-answer", "answers with the file 7"),
        ({}, [1], "not-a-config", "is a list"),
    ],
)
def test_a_list_of_files_is_what_it_may_be(hub: FakeHub, ask: Asker, headers: dict[str, str], body: Any, code: str, says: str) -> None:
    hub.trouble["org/Evil-GGUF"] = Trouble(200, headers, blob(body), only="/api/models")
    problem = ask("org/Evil-GGUF:Q4_K_M")
    assert problem.code == code and says in problem.message


def test_password_of_the_endpoint_is_never_shown(hub: FakeHub, askers: Ask) -> None:
    hub.add("org/locked", {"config.json": QWEN}, gated=True)
    behind = askers(HF_ENDPOINT=f"http://user:hunter2@{hub.host}")
    answers = [behind(reference) for reference in ("org/locked", "org/nowhere", "org/nowhere@v1")]
    assert [answer.code for answer in answers] == ["gated", "model-not-found", "model-not-found"]
    assert f"{hub.url}/org/locked" in answers[0].hint
    assert not any("hunter2" in answer.text for answer in answers)


def test_token_that_cannot_be_sent(hub: FakeHub, askers: Ask) -> None:
    hub.add("org/plain", {"config.json": QWEN})
    problem = askers(HF_ENDPOINT=hub.url, HF_TOKEN="hf_sécret")("org/plain")
    assert problem.code == "bad-token"
    assert "cret" not in problem.text


def test_endpoint_with_a_trailing_slash(hub: FakeHub, askers: Ask) -> None:
    hub.add("org/slash", {"config.json": QWEN})
    assert askers(HF_ENDPOINT=hub.url + "/")("org/slash").kind == "hub"
    asked = hub.paths()
    assert asked[0] == "HEAD /org/slash/resolve/main/config.json"
    assert not any("//" in path for path in asked)


@pytest.mark.parametrize(
    ("variables", "code", "says"),
    [
        ({"HF_ENDPOINT": "mirror.example"}, "network", "mirror.example: HF_ENDPOINT is not a web address"),
        (
            {"HF_ENDPOINT": "http://hub.invalid", "HF_HUB_ETAG_TIMEOUT": "30"},
            "network",
            "cannot reach hub.invalid: the name does not resolve",
        ),
        ({"HF_HUB_ETAG_TIMEOUT": "soon"}, "hub-client", "huggingface_hub does not start: invalid literal"),
    ],
)
def test_settings_that_cannot_work(askers: Ask, variables: dict[str, str], code: str, says: str) -> None:
    problem = askers(**variables)("org/name")
    assert problem.code == code
    assert says in problem.message


def test_cache_that_cannot_be_written(hub: FakeHub, askers: Ask, tmp_path: Path) -> None:
    commit = hub.add("org/readonly", {"config.json": QWEN})
    (tmp_path / "file").write_text("")
    found = askers(HF_ENDPOINT=hub.url, HF_HUB_CACHE=str(tmp_path / "file" / "hub"))("org/readonly")
    assert (found.kind, found.config, found.revision) == ("hub", QWEN, commit)
    assert found.notes == ["the Hub's cache cannot be written (not a directory): nothing was kept"]


def test_folder_of_the_same_name_is_offered(hub: FakeHub, ask: Asker) -> None:
    assert (ROOT / "llmcalc" / "formulas").is_dir()
    problem = ask("llmcalc/formulas")
    assert (problem.code, problem.hint) == (
        "model-not-found",
        "a folder of that name exists: write ./llmcalc/formulas to read it",
    )
