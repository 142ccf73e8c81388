"""Device profiles: what ships is sound, names mean one device, and a bad file is one error that names the field."""

from __future__ import annotations

import importlib.util
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from llmcalc import data, hardware
from llmcalc.errors import LlmcalcError, ProfileError, UsageError
from llmcalc.hardware_profile import Profile

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "hardware"
IDS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
TERA = 1e12

GOOD = """\
id: my-card
name: My Card
vendor: Me
kind: gpu
class: consumer
bandwidth: 1 TB/s
memory: {nominal: 24 GB, type: GDDR7}
compute: {bf16: 100 TFLOP/s}
"""


@pytest.fixture(autouse=True)
def _no_user_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def profile(ident: str) -> Profile:
    return hardware.read(FOLDER / f"{ident}.yaml")


def written(folder: Path, text: str, name: str = "my-card.yaml") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


# ---- what ships -----------------------------------------------------------------------------------------------------


def test_there_are_at_least_a_hundred_devices() -> None:
    assert len(IDS) >= 100
    assert hardware.ids() == IDS


@pytest.mark.parametrize("ident", IDS)
def test_a_bundled_profile_is_sound(ident: str) -> None:
    assert hardware.check(FOLDER / f"{ident}.yaml") == []
    row, device = profile(ident), hardware.load(ident)
    assert row.id == device.id == ident
    assert device.origin == "bundled"
    assert pickle.loads(pickle.dumps(device)) == device


@pytest.mark.parametrize("ident", IDS)
def test_every_value_has_a_source_and_a_date(ident: str) -> None:
    row = profile(ident)
    assert row.memory.source
    assert row.release.source and row.release.year
    assert not row.link or row.link.source
    assert not row.network or row.network.source
    assert row.power.source or not (row.power.tdp or row.power.all_in)
    assert row.compute.source or not hardware.load(ident).compute
    assert set(row.sources) == {key for _, key in row.cited()}, "a source that nothing cites"
    assert all(cite.date or cite.read for cite in row.sources.values())
    for fact in hardware.facts(hardware.load(ident)):
        assert fact.source not in ("", "not given"), fact
        assert fact.date or fact.label == "devices_per_node", fact


@pytest.mark.parametrize("ident", IDS)
def test_ladders_and_sizes_are_plausible(ident: str) -> None:
    device = hardware.load(ident)
    rates = device.compute
    for wide, narrow in (("bf16", "fp8"), ("fp8", "fp4"), ("int8", "int4"), ("tf32", "bf16")):
        if wide in rates and narrow in rates:
            assert rates[narrow] >= rates[wide]
    if "bf16" in rates and "int8" in rates and ident not in ("b300", "gb300"):  # where int8 was cut on purpose
        assert rates["int8"] >= rates["bf16"]
    if device.memory_bytes:
        assert 2e-3 < device.memory_bytes / device.bandwidth_bytes_per_s < 1  # seconds to read it all
        assert device.memory_usable_bytes
        assert 0.6 < device.memory_usable_bytes / device.memory_bytes < 1.08
        if device.memory_reported_bytes:
            assert 0.9 < device.memory_reported_bytes / device.memory_bytes < 1.08
    else:
        assert device.kind == "cpu"
    if device.link and device.link.bytes_per_s:
        assert device.link.bytes_per_s < device.bandwidth_bytes_per_s


@pytest.mark.parametrize("ident", IDS)
def test_measured_fractions_are_those_of_the_peak(ident: str) -> None:
    device = hardware.load(ident)
    stream, matmul = device.measured_bandwidth, device.measured_matmul
    if stream and stream.fraction:
        assert stream.fraction == pytest.approx(stream.value / device.bandwidth_bytes_per_s, abs=0.002)
    if matmul and matmul.fraction:
        assert matmul.fraction == pytest.approx(matmul.value / device.compute[matmul.what], abs=0.002)


def test_no_text_names_a_machine_or_an_opaque_file_number() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").lower()
        assert not any(word in text for word in ("file id", "/home/", "/root", "/work/", "/tmp/")), path


def test_the_generated_files_are_fresh() -> None:
    spec = importlib.util.spec_from_file_location("hardware_index", ROOT / "scripts" / "hardware_index.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, text in script.texts().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"run scripts/hardware_index.py: {name} is stale"


def test_a_bundled_device_is_what_its_yaml_says() -> None:
    for path in FOLDER.glob("*.yaml"):
        assert hardware.load(path.stem) == replace(hardware.load(str(path)), origin="bundled")


def test_the_schema_documents_every_field_and_forbids_others() -> None:
    schema = hardware.json_schema()
    for part in (schema, *schema["$defs"].values()):
        assert part["additionalProperties"] is False
        assert all("description" in field for field in part["properties"].values())
    assert schema["properties"]["bandwidth"]["examples"] == ["3.35 TB/s"]


# ---- names ----------------------------------------------------------------------------------------------------------


def test_every_name_means_one_device() -> None:
    hardware.index_of(map(profile, IDS))  # raises for a name that is claimed twice
    twins = [profile("l4"), profile("l40").model_copy(update={"aliases": ["NVIDIA L4"]})]
    with pytest.raises(ProfileError, match="both claim the name 'l4'"):
        hardware.index_of(twins)


@pytest.mark.parametrize("ident", IDS)
def test_every_name_loads_its_device(ident: str) -> None:
    row = profile(ident)
    for name in (row.id, row.name, *row.aliases, *row.product_names, *row.assumed_for):
        assert hardware.load(name).id == ident
        assert hardware.load(name.upper()).id == ident
        assert hardware.parse_count(name) == (row.systems.get(name, 1), name)
    for name in row.product_names:
        assert hardware.load(name) == hardware.load(ident), "a driver's name needs no assumption"


@pytest.mark.parametrize(
    ("words", "count", "ident"),
    [
        ("2x hgx-h100", 16, "h100-sxm"),
        ("gb200-nvl72", 72, "gb200"),
        ("DGX Spark pair", 2, "dgx-spark"),
        ("4x apple-m3-ultra", 4, "apple-m3-ultra"),
        ("4x mac studio m3 ultra", 4, "apple-m3-ultra"),
        ("2 sparks", 2, "dgx-spark"),
        ("2x nvl72", 144, "gb200"),
    ],
)
def test_machines_of_several_devices_have_names(words: str, count: int, ident: str) -> None:
    found, name = hardware.parse_count(words)
    assert (found, hardware.load(name).id) == (count, ident)


@pytest.mark.parametrize(
    ("name", "ident"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("H100 80GB", "h100-sxm"),
        ("4090", "rtx-4090"),
        ("4070S", "rtx-4070-super"),
        ("Mac mini M4 Pro 24GB", "apple-m4-pro"),
        ("NVIDIA 4090 24GB", "rtx-4090"),
        ("NVIDIA A100-SXM4-80GB", "a100-80-sxm"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GH200 480GB", "gh200-96"),
        ("L40", "l40"),
        ("L4", "l4"),
        ("NVIDIA GB10", "dgx-spark"),
        ("NVIDIA GB10 / DGX Spark", "dgx-spark"),
        ("AMD Instinct MI300X 192GB HBM3", "mi300x"),
        ("TPU v5e", "tpu-v5e"),
        ("Apple M4 Pro", "apple-m4-pro"),
        ("M5 Ultra", "apple-m5-ultra"),
        ("rtx_4090", "rtx-4090"),
        ("Intel(R) Arc(TM) B580 Graphics", "arc-b580"),
    ],
)
def test_the_names_of_drivers_and_shops(name: str, ident: str) -> None:
    assert hardware.load(name).id == ident


def test_a_bare_name_says_which_variant_was_assumed() -> None:
    note = hardware.load("H100").notes[0]
    assert note == "'H100' is taken as h100-sxm; others of that name: h100-nvl, h100-pcie"
    assert "taken as" in hardware.load("M4 Max").notes[0]
    assert not any("taken as" in note for note in hardware.load("h100-sxm").notes)


def test_a_name_that_means_no_card_in_particular_is_refused() -> None:
    with pytest.raises(ProfileError, match="may be rtx-4060ti-16 or rtx-4060ti-8") as caught:
        hardware.load("RTX 4060 Ti")
    assert caught.value.code == "hardware-ambiguous"


def test_a_typo_gets_close_matches_and_no_device() -> None:
    with pytest.raises(ProfileError, match="no device is called 'h100-smx'") as caught:
        hardware.load("h100-smx")
    assert caught.value.code == "hardware-not-found"
    assert "h100-sxm" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["H100 80", "H", "", "GH", "L", "RTX", "NVIDIA", "H100 SXM PCIe", "4090D", "a" * 5000, "\0"])
def test_a_part_of_a_name_is_no_name(name: str) -> None:
    with pytest.raises(ProfileError) as caught:
        hardware.load(name)
    assert caught.value.code == "hardware-not-found"
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("text", "count", "name"),
    [
        ("2x rtx-4090", 2, "rtx-4090"),
        ("8×h100-sxm", 8, "h100-sxm"),
        ("8 x h100", 8, "h100"),
        ("8xH100", 8, "H100"),
        ("h100", 1, "h100"),
        ("7900 XTX", 1, "7900 XTX"),
        ("2x 7900xtx", 2, "7900xtx"),
        ("7950X", 1, "7950X"),
        ("2x my.yaml", 2, "my.yaml"),
    ],
)
def test_a_count_in_front(text: str, count: int, name: str) -> None:
    assert hardware.parse_count(text) == (count, name)


def test_no_devices_at_all_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        hardware.parse_count("0x h100")


# ---- memory sizes in names ------------------------------------------------------------------------------------------


def test_a_size_in_the_name_picks_among_the_sizes_sold() -> None:
    device = hardware.load("Apple M3 Max (40-core GPU, 64 GB)")
    assert (device.id, device.memory_bytes, device.memory_gpu_limit_bytes) == ("apple-m3-max", 64e9, pytest.approx(0.81 * 64 * 2**30))
    small = hardware.load("M1 8GB")
    assert small.memory_gpu_limit_bytes == pytest.approx(8 * 2**30 * 2 / 3)
    assert hardware.load("M4 Max 36GB").id == "apple-m4-max-32c"
    assert hardware.load("EPYC 9654 768GB").memory_bytes == 768e9


@pytest.mark.parametrize(
    ("name", "logged_bytes"),
    # ggml_metal's recommendedMaxWorkingSetSize [MB] on macOS 15 and 26.
    [("M3 16GB", 12713.12e6), ("M4 32GB", 26800.60e6), ("M3 Pro 36GB", 30150.67e6), ("M4 Pro 48GB", 40200.90e6), ("M3 Max 64GB", 55662.79e6),
     ("M4 Max 128GB", 115448.73e6), ("M3 Ultra 512GB", 498216.21e6), ("M4 Pro 24GB", 17.76 * 2**30)],
)  # fmt: skip
def test_what_macos_leaves_the_gpu(name: str, logged_bytes: float) -> None:
    assert hardware.load(name).memory_usable_bytes == pytest.approx(logged_bytes, rel=2e-3)


@pytest.mark.parametrize("name", ["RTX A4000 8GB", "H100 PCIe 94GB", "H100 96GB", "RTX 4090 48 GB", "M4 Max 96GB"])
def test_a_size_that_is_not_sold_never_finds_another_card(name: str) -> None:
    with pytest.raises(ProfileError, match=r"not \d+ GB"):
        hardware.load(name)


def test_cards_of_one_name_keep_their_own_memory_and_bandwidth() -> None:
    assert hardware.load("RTX A4000 16GB").memory_bytes == 16e9
    assert hardware.load("RTX A2000 12GB").memory_bytes == 12e9
    assert hardware.load("RTX A2000 6GB").memory_bytes == 6e9
    assert hardware.load("RTX 3060 8GB").bandwidth_bytes_per_s == 240e9
    assert hardware.load("RTX 3060 12GB").bandwidth_bytes_per_s == 360e9
    with pytest.raises(ProfileError, match="a2000-12 or a2000-6"):
        hardware.load("RTX A2000")
    with pytest.raises(ProfileError) as caught:
        hardware.load("GeForce RTX 2070 Max-Q")
    assert "laptop part is not the desktop card" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "ident", "gb"),
    [
        ("rtx-4060-8", "rtx-4060", 8), ("m4-max-64", "apple-m4-max-40c", 64), ("m4_max_36", "apple-m4-max-32c", 36), ("mi50-32", "mi50", 32),
        ("rtx-3060-12", "rtx-3060-12", 12), ("AMD Radeon RX 6900 XT", "rx-6900xt", 16), ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop", 16),
    ],
)  # fmt: skip
def test_names_that_people_type(name: str, ident: str, gb: int) -> None:
    found = hardware.load(name)
    assert (found.id, found.memory_bytes) == (ident, gb * 1e9)


@pytest.mark.parametrize("name", ["rtx-4060-16", "mi300x-80", "rtx-3090-3"])
def test_a_size_that_is_not_sold(name: str) -> None:
    with pytest.raises(ProfileError, match=r"has .* not"):
        hardware.load(name)


@pytest.mark.parametrize(
    ("ident", "fp16", "gb_s"),
    [("rtx-2080", 40.3, 448), ("rtx-2070-super", 36.3, 448), ("a800-80-sxm", 312, 2039), ("l20", 119.5, 864)],
)
def test_cards_of_the_turing_whitepaper_and_others(ident: str, fp16: float, gb_s: float) -> None:
    """NVIDIA's Turing whitepaper, table 4: RTX 2080 reference, fp16 with fp32 accumulate 40.3; the rest by their makers' tables."""
    found = hardware.load(ident)
    assert found.compute["fp16"] / 1e12 == pytest.approx(fp16, rel=0.02)
    assert found.bandwidth_bytes_per_s / 1e9 == pytest.approx(gb_s, rel=0.01)


# ---- values that others get wrong -----------------------------------------------------------------------------------


def test_h100_variants_are_three_devices() -> None:  # 1513 is the sparse rate of the PCIe card
    sxm, pcie, nvl = (hardware.load(f"h100-{each}") for each in ("sxm", "pcie", "nvl"))
    assert pcie.compute["bf16"] == pytest.approx(756.5 * TERA, rel=0.005)
    assert nvl.compute["bf16"] == pytest.approx(835 * TERA, rel=0.005)
    assert sxm.compute["bf16"] == pytest.approx(989.4 * TERA)
    assert [each.bandwidth_bytes_per_s for each in (sxm, pcie, nvl)] == pytest.approx([3.35e12, 2.0e12, 3.9e12])
    assert [each.memory_type for each in (sxm, pcie, nvl)] == ["HBM3", "HBM2e", "HBM3"]


def test_b200_memory_in_three_units() -> None:
    device = hardware.load("B200")
    assert device.memory_bytes == 180e9
    assert device.memory_reported_bytes == 183359 * 2**20
    assert device.memory_reported_bytes == pytest.approx(192.3e9, rel=1e-3)
    assert device.bandwidth_bytes_per_s == pytest.approx(7.7e12)
    assert any("8 TB/s" in note for note in device.notes)


def test_dgx_spark_shares_its_memory() -> None:
    device = hardware.load("NVIDIA GB10")
    assert device.kind == device.device_class == "unified"
    assert device.memory_reported_bytes == pytest.approx(128501256192, rel=0.001)
    assert device.bandwidth_bytes_per_s == 273e9
    assert device.compute["bf16"] == 125 * TERA


def test_a100_has_no_fp8_rate() -> None:
    for ident in ("a100-40-pcie", "a100-40-sxm", "a100-80-pcie", "a100-80-sxm"):
        assert "fp8" not in hardware.load(ident).compute
        assert hardware.load(ident).compute["bf16"] == 312 * TERA


@pytest.mark.parametrize(
    ("ident", "field", "tera"),
    [
        ("h100-sxm", "fp8", 1979),  # 3958 is sparse
        ("l40s", "fp8", 733),  # 1466 is sparse
        ("l40", "bf16", 181),  # half the rate of the L40S
        ("rtx-4090", "fp8", 330.3),  # 660.6 sums in fp16
        ("rtx-4090", "bf16", 165.2),
        ("rtx-5090", "fp4", 1676),  # not halved by fp32 accumulate
        ("b300", "fp4", 14_000),  # not half of the sparse 18,000
        ("b300", "int8", 153.5),
        ("mi355x", "fp8", 5033),  # 10,066 is sparse
        ("mi355x", "fp4", 10_066),  # and this is dense
        ("mi210", "int8", 181),
        ("gaudi3", "bf16", 1677),  # what ships, not 1835
        ("h20", "bf16", 148),  # dense already
    ],
)
def test_rates_are_dense_and_of_the_right_accumulate_type(ident: str, field: str, tera: float) -> None:
    device = hardware.load(ident)
    assert device.compute[field] == pytest.approx(tera * TERA)
    assert device.accumulate == "fp32"


@pytest.mark.parametrize(
    ("ident", "gb_per_s"),
    [
        ("rtx-pro-6000-blackwell", 1792),
        ("rtx-pro-6000-blackwell-server", 1597),
        ("gh200-96", 4000),
        ("apple-m4-max-32c", 410),
        ("apple-m4-max-40c", 546),
        ("apple-m3-ultra", 819),
        ("apple-m5-ultra", 1200),
        ("rtx-5060", 448),
        ("rtx-4060", 272),
        ("arc-a770", 560),
    ],
)
def test_bandwidths_that_peers_mix_up(ident: str, gb_per_s: float) -> None:
    assert hardware.load(ident).bandwidth_bytes_per_s == pytest.approx(gb_per_s * 1e9)


def test_links_are_one_way() -> None:
    link = hardware.load("h100-sxm").link
    assert link == hardware.Link("NVLink 4", 450e9)
    bridge = hardware.load("h100-pcie").link
    assert bridge and (bridge.bytes_per_s, bridge.bridge_bytes_per_s) == (64e9, 300e9)
    assert hardware.load("t4").network is None
    assert hardware.load("apple-m4").link == hardware.Link("Thunderbolt 4", 5e9)


def test_turing_has_no_bf16() -> None:
    assert "bf16" not in hardware.load("t4").compute


# ---- prices ---------------------------------------------------------------------------------------------------------


def test_the_default_price_is_the_median_of_what_is_asked() -> None:
    price = hardware.load("h100-sxm").price()
    assert price.usd_per_hour == 2.95
    assert price.text.startswith("median of 7 on-demand prices, from $2.29 Verda (undated) to $10.80 GCP (2025-02)")
    assert hardware.load("h100-sxm").price("spot").usd_per_hour == pytest.approx((1.25 + 0.8015) / 2)


def test_without_an_on_demand_price_the_text_says_what_stands_in() -> None:
    device = hardware.load("mi355x")
    assert device.price("on-demand") == (None, "no on-demand price is recorded for mi355x")
    assert device.price().text.startswith("long-rental price: ")
    asked = hardware.load("mi300x")
    assert asked.price() == (1.99, "on-demand price: $1.99 DigitalOcean (2026-05-28)")
    assert asked.of_kind("long-rental").price() == (1.55, "long-rental price: $1.55 SemiAnalysis, 3-year rental (2026-04-03)")


def test_devices_are_compared_by_one_kind_of_price() -> None:
    def kind(*names: str) -> str:
        return hardware.common_kind(hardware.load(name) for name in names)

    assert kind("h100-sxm", "mi300x") == "on-demand"
    assert kind("h100-sxm", "mi355x") == "long-rental"  # the first that both have
    assert kind("h100-sxm", "rtx-4090") == "on-demand"  # the latter has none of any kind
    assert hardware.load("rtx-4090").price() == (None, "no price is recorded for rtx-4090")


# ---- files of one's own ---------------------------------------------------------------------------------------------


def test_a_file_is_a_device(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    device = hardware.load(path)
    assert (device.id, device.origin, device.compute) == ("my-card", path, {"bf16": 1e14})
    assert hardware.check(path) == []
    assert {fact.source for fact in hardware.facts(device)} == {"not given", "modelling default, not a specification"}


def test_a_users_file_overrides_the_bundled_one(tmp_path: Path) -> None:
    folder = data.user_config() / "hardware"
    written(folder, GOOD.replace("my-card", "h100-sxm"), "h100-sxm.yaml")
    assert hardware.load("H100").bandwidth_bytes_per_s == 1e12
    assert hardware.load("h100-sxm").origin == str(folder / "h100-sxm.yaml")
    assert hardware.load("h100-pcie").origin == "bundled"
    assert hardware.ids() == IDS


def test_a_users_file_adds_an_id_and_aliases(tmp_path: Path) -> None:
    folder = data.user_config() / "hardware"
    written(folder, "broken: [", "broken.yaml")
    written(folder, GOOD + "aliases: [Box 9, 777]\n")
    assert hardware.load("box 9").id == hardware.load("777").id == hardware.load("MY-CARD").id == "my-card"
    assert "my-card" in hardware.ids()
    with pytest.raises(ProfileError):
        hardware.load("broken")


def test_a_users_file_is_named_after_its_id() -> None:
    written(data.user_config() / "hardware", GOOD, "other.yaml")
    with pytest.raises(ProfileError, match="id: is 'my-card'; it must be the file's name, 'other'"):
        hardware.load("other")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("bandwidth: 1 TB/s", "bandwidth: 3.35"), "bandwidth: needs a unit"),
        (("bandwidth: 1 TB/s", 'bandwidth: "3.35"'), "bandwidth: needs a unit"),
        (("bandwidth: 1 TB/s", "bandwidth: -1 TB/s"), "bandwidth: "),
        (("bandwidth: 1 TB/s", "bandwidth: 0 TB/s"), "bandwidth: must be above zero"),
        (("bandwidth: 1 TB/s", "bandwidth: .nan"), "bandwidth: needs a unit"),
        (("bandwidth: 1 TB/s", "bandwidth: nan TB/s"), "bandwidth: "),
        (("bandwidth: 1 TB/s", "bandwidth: inf TB/s"), "bandwidth: "),
        (("bandwidth: 1 TB/s", "bandwidth: 1e300 TB/s"), "bandwidth: "),
        (("bandwidth: 1 TB/s", "bandwidth: 1 TFLOP/s"), "bandwidth: "),
        (("bandwidth: 1 TB/s", "bandwidth: [1 TB/s]"), "bandwidth: needs a unit"),
        (("bandwidth: 1 TB/s\n", ""), "bandwidth: is required"),
        (("bandwidth: 1 TB/s", "bandwidth: 1 TB/s\nbandwidth: 2 TB/s"), "bandwidth twice"),
        (("bandwidth: 1 TB/s", "bandwith: 1 TB/s\nbandwidth: 1 TB/s"), "bandwith: is not a field"),
        (("nominal: 24 GB", "nominal: 24"), "memory.nominal: needs a unit"),
        (("bf16: 100", "bf17: 100"), "compute.bf17: is not a field"),
        (("bf16: 100 TFLOP/s", "bf16: 100 TFLOP/s, bf16: 200 TFLOP/s"), "bf16 twice"),
        (("class: consumer", "class: gaming"), "class: "),
        (("id: my-card", "id: ../my-card"), "id: "),
        (("name: My Card", 'name: "My\\e[31m Card"'), "name: must be one line of printable text"),
        (("name: My Card", "name: yes"), "name: "),
        (("vendor: Me", "vendor: Me\n1: one"), "1: "),
        (("vendor: Me", "vendor: Me\ndevices_per_node: 1.5"), "devices_per_node: "),
        (("vendor: Me", "vendor: Me\ndevices_per_node: 0"), "devices_per_node: "),
        (("vendor: Me", "vendor: Me\nnotes: !!python/object/apply:os.system [true]"), "python/object"),
        (("vendor: Me", "vendor: Me\npower: {tdp: 700 W, source: [sheet]}"), "power.source names 'sheet'"),
        (("vendor: Me", "vendor: Me\nderived: [speed]"), "derived names 'speed'"),
        (("vendor: Me", "vendor: Me\nprices: [{rate: 3, type: spot, provider: P, source: s}]"), "prices.0.rate: needs"),
        (("vendor: Me", "vendor: Me\nmeasured: {matmul: {value: 1 TFLOP/s, format: fp9}}"), "measured.matmul.format: "),
        (("vendor: Me", "vendor: Me\n" + "x" * 2**18 + ": 1"), "bytes"),
        ((GOOD, ""), "holds nothing"),
        ((GOOD, "- id: my-card"), "holds no mapping"),
        ((GOOD, "[" * 5000), "profile.yaml"),
        ((GOOD, "id: {"), "profile.yaml"),
    ],
)
def test_a_hostile_file_is_one_error_that_names_the_field(tmp_path: Path, change: tuple[str, str], named: str) -> None:
    path = written(tmp_path, GOOD.replace(*change), "profile.yaml")
    with pytest.raises(ProfileError) as caught:
        hardware.load(path)
    assert named in caught.value.message
    assert "\n" not in caught.value.message and "\x1b" not in caught.value.message
    assert len(caught.value.message) < 400 + len(path)
    problems = hardware.check(path)
    assert len(problems) == 1 and named in problems[0]


def test_an_alias_bomb_is_one_short_error(tmp_path: Path) -> None:
    layers = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    path = written(tmp_path, f"{GOOD}a0: &a0 [x]\n{layers}notes: *a29\n")
    with pytest.raises(ProfileError) as caught:
        hardware.load(path)
    assert len(caught.value.message) < 300 + len(path)
    assert all(len(problem) < 300 + len(path) for problem in hardware.check(path))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    for reference in (tmp_path / "none.yaml", tmp_path, "~nobody-of-that-name/x.yaml"):
        with pytest.raises(LlmcalcError):
            hardware.load(str(reference))
        assert hardware.check(reference)


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        (("1 TB/s", "1 GB/s"), "bandwidth: reading the memory once would take 24 s"),
        (("bf16: 100", "bf16: 100 TFLOP/s, fp8: 50"), "compute.fp8: is slower than bf16"),
        (("nominal: 24 GB", "nominal: 24 GB, reported: 48 GiB"), "memory.reported: is 2.15 times"),
    ],
)
def test_check_doubts_what_physics_does_not_allow(tmp_path: Path, change: tuple[str, str], doubt: str) -> None:
    problems = hardware.check(written(tmp_path, GOOD.replace(*change)))
    assert problems[0].startswith(doubt)


def test_no_yaml_is_parsed_for_a_bundled_device(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, parse = [], data.parse_yaml

    def counted(text: str, name: str, what: str) -> object:
        parsed.append(name)
        return parse(text, name, what)

    monkeypatch.setattr(data, "parse_yaml", counted)
    hardware.load("NVIDIA H100 80GB HBM3")
    hardware.load(str(FOLDER / "h100-sxm.yaml"))
    assert [Path(name).name for name in parsed] == ["h100-sxm.yaml"]  # by the path alone


def test_facts_carry_value_unit_source_and_date() -> None:
    facts = {fact.label: fact for fact in hardware.facts(hardware.load("h100-sxm"))}
    rate = facts["compute.bf16"]
    assert rate.value == pytest.approx(989.4e12)
    assert rate.unit == "FLOP/s"
    assert "stas00/ml-engineering" in rate.source and "2026-08-22" in rate.date
    assert facts["link.one_direction"].value == 450e9
    assert hardware.load("dgx-spark").marks["compute.bf16"] == "derived, unverified"
    assert json.dumps(facts["memory.reported"]).startswith('["memory.reported", 85520809984')


def test_sixteen_bits_are_no_slower_than_thirty_two() -> None:
    """Pascal's consumer chips do 1/64 of their rate in fp16 (CUDA C programming guide, arithmetic instructions), so engines compute in
    fp32 there: such a rate in a profile would be taken for the device's."""
    for each in map(hardware.load, hardware.ids()):
        sixteen = max(each.compute.get("bf16", 0.0), each.compute.get("fp16", 0.0))
        assert not sixteen or sixteen >= each.compute.get("fp32", 0.0), each.id
