"""ARCHITECTURE.md is true: its floors and rooms exist, what is added has its place, and its recipes work on a scratch copy."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from trees import nodes

from llmcalc import engines, families, quiz
from llmcalc.commands import COMMANDS
from llmcalc.commands.options import Group
from llmcalc.families import MODULES, READERS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "llmcalc"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


# ---- the page -----------------------------------------------------------------------------------------------------


def test_every_file_and_test_that_it_names_is_there() -> None:
    places = [ROOT, PACKAGE, ROOT / "tests"]
    files = set(re.findall(r"`((?:[\w.]+/)*[\w.-]+\.(?:py|md|yaml)|(?:\w+/)+)`", PAGE))
    assert len(files) > 15
    assert not [name for name in files if not re.search("NAME|ID", name) and not any((place / name).exists() for place in places)]
    assert not [name for name in re.findall(r"\btest_\w+", PAGE) if not (ROOT / "tests" / f"{name}.py").exists()]
    for script in re.findall(r"python (scripts/\w+\.py)", PAGE):
        assert (ROOT / script).exists()


def test_every_room_is_on_the_page() -> None:
    table = PAGE.partition("## Floors")[2].partition("## Where")[0]
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert not {name for name in folders if f"`{name}/`" not in table}
    assert not [
        word
        for word in re.findall(r"`(\w+)`", table.partition("| --- |")[2])
        if not list(PACKAGE.rglob(f"{word}.py")) and word not in folders
    ]


# ---- what is added has its place ----------------------------------------------------------------------------------


def decorated(path: Path, mark: str) -> list[ast.Call]:
    found = [node for node in nodes(path) if isinstance(node, ast.FunctionDef)]
    calls = [each for node in found for each in node.decorator_list if isinstance(each, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == mark]


def test_every_family_is_listed_under_its_module() -> None:
    for path in sorted((PACKAGE / "families").glob("[a-z]*.py")):
        for call in decorated(path, "family"):
            for each in call.args:
                if isinstance(each, ast.Constant):
                    assert MODULES.get(each.value) == path.stem, f"add {each.value} to _TYPES[{path.stem!r}] in families/__init__.py"
    for model_type in MODULES:
        families.reader(model_type)
        assert model_type in READERS


def test_every_engine_is_in_the_table() -> None:
    held = {row.name for row in engines.ENGINES.values()}
    for path in sorted((PACKAGE / "engines").glob("[a-z]*.py")):
        if path.stem != "row":
            rows = [
                node
                for node in nodes(path)
                if isinstance(node, ast.keyword) and node.arg == "name" and isinstance(node.value, ast.Constant)
            ]
            assert {str(node.value.value) for node in rows} <= held, f"name {path.stem} in ENGINES of engines/__init__.py"  # type: ignore[attr-defined]


def test_every_subject_and_command_is_listed() -> None:
    subjects = {path.stem for path in (PACKAGE / "quiz").glob("[a-z]*.py") if decorated(path, "template")}
    assert subjects == set(quiz.SUBJECTS), "name the module in SUBJECTS of quiz/__init__.py"
    commands = {
        path.stem
        for path in (PACKAGE / "commands").glob("[a-z]*.py")
        if re.search(r"^def register\(", path.read_text(encoding="utf-8"), re.M)
    }
    assert commands == set(COMMANDS), "name the module in COMMANDS of commands/__init__.py"
    for name in commands:
        first = (PACKAGE / "commands" / f"{name}.py").read_text(encoding="utf-8").splitlines()[0]
        assert re.match(rf'"""`llmcalc {name}`: \w', first), f"commands/{name}.py begins with what --help says of it"


def groups(of: type[Group]) -> list[type[Group]]:
    return [each for one in of.__subclasses__() for each in (one, *groups(one))]


def test_every_option_is_read_somewhere() -> None:
    for name in COMMANDS:
        __import__(f"llmcalc.commands.{name}")
    text = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "commands").glob("*.py"))
    options = {name for group in groups(Group) for name in group.options()}
    assert len(options) > 40
    unread = {name for name in options if not re.search(rf"\.{name}\b(?!\s*=[^=])", text) and f'"{name}"' not in text}
    assert not unread, "an option that nothing reads has no effect"


# ---- the recipes --------------------------------------------------------------------------------------------------

ATTENTION = '''"""Every fourth token, and a window."""

from llmcalc.architecture import Attention, Entry, linear
from llmcalc.formulas.memory import kv_bytes_per_token


def build(hidden: int, heads: int, kv: int, dim: int, window: int, step: int) -> Attention:
    """Two entries: the window, and one of `step` tokens."""
    args = (("kv_heads", kv), ("head_dim", dim))
    entries = (Entry(kv_bytes_per_token, args, window=window), Entry(kv_bytes_per_token, args, ratio=step))
    weights = linear("q_proj", "attention", heads * dim, hidden) + linear("o_proj", "attention", hidden, heads * dim)
    weights += linear("k_proj", "attention", kv * dim, hidden) + linear("v_proj", "attention", kv * dim, hidden)
    return Attention("strided", weights, entries, query_heads=heads, kv_heads=kv)
'''
FAMILY = '''

@family("scratchy")
def scratchy(c: Config) -> Stack:
    """Llama with strided attention."""
    from llmcalc.attention import strided

    query, kv, dim = gqa.heads(c)
    mixer = strided.build(c.hidden, query, kv, dim, 1024, c.count("keep_every"))
    return decoder(c, lambda _: mixer, gated(c))
'''
COMMAND = '''"""`llmcalc scratch`: says a word."""

import typer

from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.present import Report


class Word(o.Group):
    """What it says."""

    word = o.option("x", "--word", help="The word.")


def scratch(said: Word, out: o.File) -> None:
    """Says a word."""
    c.say(Report(command="scratch", title=said.word), out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("scratch")(o.command(scratch))
'''
FORMAT = '''"""Tabs."""

from llmcalc.present import Carries, Report

CARRIES = Carries(endings=(".tsv",), facts=True, rows=True, warnings=False, chart=False)


def render(report: Report) -> str:
    """Each fact on a line."""
    return "".join(f"{fact.key}\\t{fact.value}\\n" for fact in report.facts)
'''
QUESTION = """

@template("kv", 1)
def scratch_token(draw: Draw) -> Question:
    found = draw.model(d.DENSE)
    return draw.number(memory.kv(found, 1024).results.kv_bytes_per_token, "B/token", given=draw.model_words(found))
"""


def done(copy: Path) -> None:
    """Every recipe of the page that needs code, as it says."""

    def edit(name: str, old: str, new: str) -> None:
        path = copy / "llmcalc" / name
        text = path.read_text(encoding="utf-8")
        assert old in text, (name, old)
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    (copy / "llmcalc/attention/strided.py").write_text(ATTENTION)
    edit("architecture.py", '"mlstm"]', '"mlstm", "strided"]')
    with (copy / "llmcalc/families/llama.py").open("a") as stream:
        stream.write(FAMILY)
    edit("families/__init__.py", '"llama": """llama', '"llama": """llama scratchy')
    edit("config.py", "q_lora_rank", "keep_every q_lora_rank")
    text = (copy / "hardware/l4.yaml").read_text(encoding="utf-8")
    names = re.sub(r"^(aliases|product_names|assumed_for|shared_names|systems):.*\n(?:[ -].*\n)*", "", text, flags=re.M)
    names = re.sub(r"^id: .*", "id: scratch-1", names, flags=re.M)
    (copy / "hardware/scratch-1.yaml").write_text(re.sub(r"^name: .*", "name: Scratch One", names, flags=re.M))
    engine = (copy / "llmcalc/engines/mlx.py").read_text(encoding="utf-8")
    (copy / "llmcalc/engines/scratch.py").write_text(engine.replace('name="mlx"', 'name="scratch"'))
    edit("engines/__init__.py", "trt_llm, vllm\n", "scratch, trt_llm, vllm\n")
    edit("engines/__init__.py", "exllama, ktransformers)", "exllama, ktransformers, scratch)")
    (copy / "llmcalc/commands/scratch.py").write_text(COMMAND)
    edit("commands/__init__.py", '"doctor",', '"doctor",\n    "scratch",')
    (copy / "llmcalc/present/as_tsv.py").write_text(FORMAT)
    edit("present/__init__.py", '"table", "json"', '"table", "tsv", "json"')
    edit("present/__init__.py", '"json": "as_json"', '"tsv": "as_tsv", "json": "as_json"')
    with (copy / "llmcalc/quiz/caches.py").open("a") as stream:
        stream.write(QUESTION)
    edit(
        "quiz/texts.py",
        "TEXTS: dict[str, tuple[str, str]] = {",
        'TEXTS: dict[str, tuple[str, str]] = {\n    "scratch_token": ("How much?", "Сколько?"), "scratch_token.how": ("So.", "Так."),',
    )
    edit(
        "commands/options.py",
        "class Whence(Group):",
        'class Scratch(Group):\n    """One more."""\n\n    flag = option(None, "--flag", help="x")\n\n\nclass Whence(Group):',
    )


CONFIG = (
    '{"model_type": "scratchy", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, '
    '"intermediate_size": 128, "vocab_size": 100, "keep_every": 4, "max_position_embeddings": 4096, "tie_word_embeddings": true}'
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program with one more of everything."""
    copy = tmp_path_factory.mktemp("scratch")
    for name in ("llmcalc", "hardware", "models", "measurements", "scripts"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    done(copy)
    (copy / "config.json").write_text(CONFIG)
    return copy


def run(copy: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(copy), "HF_HUB_OFFLINE": "1", "XDG_CONFIG_HOME": str(copy)}
    found = subprocess.run([sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, (command, found.stdout[-500:], found.stderr[-1500:])
    return found.stdout


def test_one_more_of_everything_works(scratch: Path) -> None:
    """The window's 1,024 tokens and a quarter of 4,096, each 2 layers × 2 × 2 heads × 16 × 2 B = 256 B: half a MiB."""
    run(scratch, "scripts/hardware_index.py")
    kv = run(scratch, "-m", "llmcalc", "kv", "-m", "config.json", "-c", "4096", "-f", "tsv")
    assert dict(line.split("\t") for line in kv.splitlines())["kv_bytes_per_sequence"] == str(256 * 2048)
    assert "scratch-1" in run(scratch, "-m", "llmcalc", "hardware", "list", "scratch")
    fitted = run(scratch, "-m", "llmcalc", "fit", "-m", "config.json", "-d", "apple-m4", "-c", "4k", "--engine", "scratch")
    assert "scratch" in fitted
    assert run(scratch, "-m", "llmcalc", "scratch", "--word", "hello").strip() == "hello"
    code = "from llmcalc import quiz; from llmcalc.quiz.draw import Draw, Source; t = quiz.bank()['scratch_token']; "
    assert run(scratch, "-c", code + "print(t.make(Draw(Source('1'), 'ru', t)).text)").strip().endswith("Сколько?")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("file", "old", "new", "test", "says"),
    [
        ("llmcalc/config.py", "keep_every ", "", "test_wiring.py::test_every_key_that_a_family_asks_for_is_known_to_shape", "keep_every"),
        ("llmcalc/families/__init__.py", " scratchy", "", "test_architecture.py::test_every_family_is_listed_under_its_module", "_TYPES"),
        ("hardware/scratch-1.yaml", "Scratch One", "Scratch One", "test_hardware.py::test_the_generated_files_are_fresh", "hardware_index.py"),
        ("llmcalc/present/__init__.py", '"tsv": "as_tsv", ', "", "test_present.py::test_every_module_of_a_format_is_in_the_list", "FORMATS"),
        ("llmcalc/present/as_tsv.py", "CARRIES = ", "FORGOTTEN = ", "test_present.py::test_a_format_carries_what_it_says", "CARRIES"),
        ("llmcalc/present/as_tsv.py", "CARRIES = ", "CARRIES = ", "test_present.py::test_every_format", "tsv"),
        ("llmcalc/engines/__init__.py", "ktransformers, scratch)", "ktransformers)", "test_architecture.py::test_every_engine_is_in_the_table", "ENGINES"),
        ("llmcalc/engines/scratch.py", "kind=", "# kind=", "test_engines.py::test_every_row_has_a_source", "kind"),
        ("llmcalc/quiz/texts.py", '"scratch_token.how"', '"x.how"', "test_quiz.py::test_every_question_can_be_asked_in", "scratch_token"),
        ("llmcalc/commands/__init__.py", '"scratch",', "", "test_architecture.py::test_every_subject_and_command_is_listed", "COMMANDS"),
        ("llmcalc/commands/__init__.py", '"scratch",', '"scratch",', "test_readme.py::test_every_command_is_in_the_readme", "scratch"),
        ("llmcalc/commands/__init__.py", '"scratch",', '"scratch",', "test_docs.py::test_every_command_has_an_example_in_the_json_page", "scratch"),
        ("llmcalc/commands/options.py", "flag = option", "flag = option", "test_architecture.py::test_every_option_is_read_somewhere", "flag"),
    ],
)  # fmt: skip
def test_a_forgotten_step_is_caught(scratch: Path, tmp_path: Path, file: str, old: str, new: str, test: str, says: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(scratch, copy)
    for name in ("tests", "docs", "examples"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "ARCHITECTURE.md", "SKILL.md", "CHANGELOG.md", "pyproject.toml"):
        shutil.copy(ROOT / name, copy)
    path = copy / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", f"tests/{test}"]
    found = subprocess.run(command, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, text=True, timeout=300)
    assert found.returncode and says in found.stdout + found.stderr, found.stdout[-2000:]
