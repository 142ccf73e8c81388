"""`-d auto`: what drivers really print, through fakes of the drivers; a device is its exact name and its memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llmcalc import detect, hardware
from llmcalc.cli import main
from llmcalc.errors import ProfileError

MIB, GIB = 2**20, 2**30


class NVMLError(Exception):
    pass


def nvml(*devices: tuple[Any, int | None]) -> Any:
    """nvidia-ml-py with these names and totals [MiB]; None: the driver does not say."""

    def memory(index: int) -> Any:
        total = devices[index][1]
        if total is None:
            raise NVMLError("Not Supported")
        return SimpleNamespace(total=total * MIB)

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(devices),
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda index: devices[index][0],
        nvmlDeviceGetMemoryInfo=memory,
    )


Machine = Callable[..., None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """This machine has these devices."""

    def set_(*found: detect.Found) -> None:
        monkeypatch.setattr(detect, "local", lambda: list(found))

    return set_


# Names and totals as nvidia-smi prints them, https://github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference and vendors' pages.
@pytest.mark.parametrize(
    ("name", "mib", "ident"),
    [
        ("NVIDIA H100 80GB HBM3", 81559, "h100-sxm"),
        ("NVIDIA H100 PCIe", 81559, "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-80-sxm"),
        (b"NVIDIA GeForce RTX 4090", 24564, "rtx-4090"),
        ("NVIDIA GeForce RTX 3060", 12288, "rtx-3060-12"),
        ("NVIDIA GeForce RTX 3060", 8192, "rtx-3060-8"),
        ("NVIDIA GeForce RTX 4060 Ti", 16380, "rtx-4060ti-16"),
        ("NVIDIA L4", 23034, "l4"),
        ("NVIDIA L40S", 46068, "l40s"),
        ("Tesla T4", 15360, "t4"),
    ],
)
def test_nvidia_by_name_and_memory(name: Any, mib: int, ident: str, machine: Machine) -> None:
    machine(*detect.nvidia(nvml((name, mib))))
    device = hardware.load("auto")
    assert device.id == ident
    assert device.notes[0].startswith(f"'auto' is taken as {ident}: the system reports ")


@pytest.mark.parametrize(
    ("name", "mib"), [("NVIDIA H100 80GB HBM3", 9984), ("NVIDIA GeForce RTX 3060", 6144), ("NVIDIA GeForce RTX 9999", 24564)]
)
def test_another_memory_or_name_is_no_match(name: str, mib: int, machine: Machine) -> None:
    """A MIG slice, a laptop part, a card of next year."""
    machine(*detect.nvidia(nvml((name, mib))))
    with pytest.raises(ProfileError, match=f"no profile matches: the system reports {name} with {mib / 1024:.1f} GiB") as caught:
        hardware.load("auto")
    assert caught.value.code == "hardware-not-detected"


def test_alike_gpus_are_counted(machine: Machine) -> None:
    found = detect.nvidia(nvml(*[("NVIDIA H200", 143771)] * 8))
    assert found == [detect.Found("NVIDIA H200", 143771 * MIB, 8)]
    machine(*found)
    assert hardware.load("auto").notes[0].endswith("8 are here: '8x auto' takes all")
    assert hardware.parse_count("8x auto") == (8, "auto")


def test_a_memory_that_nvml_does_not_know_is_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "_system_memory", lambda: 119 * GIB)
    assert detect.nvidia(nvml(("NVIDIA GB10", None))) == [detect.Found("NVIDIA GB10", 119 * GIB)]


def test_no_driver_no_gpu() -> None:
    def fails() -> None:
        raise NVMLError("Driver Not Loaded")

    assert detect.nvidia(SimpleNamespace(nvmlInit=fails)) == []


def card(root: Path, name: str, vendor: str, product: str, total: int) -> None:
    folder = root / name / "device"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "product_name").write_text(product + "\n")
    (folder / "mem_info_vram_total").write_text(f"{total}\n")


def test_amd_by_sysfs_and_rocm_smi(tmp_path: Path, machine: Machine) -> None:
    card(tmp_path, "card0", "0x1002", "", 25753026560)  # a 7900 XTX: 24 GiB less 16 MiB
    card(tmp_path, "card1", "0x8086", "an iGPU", 1)
    answer = json.dumps({"card0": {"Card Series": "AMD Radeon RX 7900 XTX", "Card Model": "0x744c"}, "system": {"Driver version": "6.0.5"}})
    found = detect.amd(tmp_path, lambda *command: answer)
    assert found == [detect.Found("AMD Radeon RX 7900 XTX", 25753026560)]
    machine(*found)
    assert hardware.load("auto").id == "rx-7900xtx"
    assert detect.amd(tmp_path, lambda *command: "") == []  # without rocm-smi nobody knows its name


def test_amd_names_in_sysfs_need_no_program(tmp_path: Path) -> None:
    card(tmp_path, "card0", "0x1002", "AMD Instinct MI300X", 206141652992)
    card(tmp_path, "card1", "0x1002", "AMD Instinct MI300X", 206141652992)

    def never(*command: str) -> str:
        raise AssertionError(command)

    assert detect.amd(tmp_path, never) == [detect.Found("AMD Instinct MI300X", 206141652992, 2)]


def mac(chip: str, memory: int, cores: int) -> Callable[..., str]:
    said = {
        "machdep.cpu.brand_string": chip,
        "hw.memsize": str(memory),
        "SPDisplaysDataType": f'{{"SPDisplaysDataType": [{{"sppci_cores" : "{cores}"}}]}}',
    }
    return lambda *command: said[command[-1]] + "\n"


@pytest.mark.parametrize(
    ("chip", "gib", "cores", "ident"),
    [("Apple M4 Max", 128, 40, "apple-m4-max-40c"), ("Apple M4 Max", 36, 32, "apple-m4-max-32c"), ("Apple M4", 16, 10, "apple-m4")],
)
def test_apple_by_chip_cores_and_memory(chip: str, gib: int, cores: int, ident: str, machine: Machine) -> None:
    machine(*detect.apple(mac(chip, gib * GIB, cores), "darwin"))
    device = hardware.load("auto")
    assert (device.id, device.memory_bytes) == (ident, gib * 1e9)


def test_apple_elsewhere_and_intel_macs() -> None:
    assert detect.apple(mac("Apple M4", GIB, 10), "linux") == []
    assert detect.apple(mac("Intel(R) Core(TM) i7", GIB, 10), "darwin") == []


def test_a_known_cpu_has_the_memory_of_the_machine(tmp_path: Path, machine: Machine) -> None:
    sockets = "".join(f"processor : {n}\nmodel name\t: AMD EPYC 9654 96-Core Processor\nphysical id\t: {n // 2}\n\n" for n in range(4))
    (tmp_path / "cpuinfo").write_text(sockets)
    (tmp_path / "meminfo").write_text("MemTotal:       792723456 kB\nMemFree: 1 kB\n")
    found = detect.cpu(tmp_path)
    assert found == [detect.Found("AMD EPYC 9654 96-Core Processor", 792723456 * 1024, 2, None, "cpu")]
    machine(*found)
    device = hardware.load("AUTO")
    assert (device.id, device.memory_usable_bytes) == ("cpu-epyc-9654", 792723456 * 1024)


def test_a_profile_of_ones_own_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    folder = tmp_path / "llmcalc" / "hardware"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "id: mine\nname: My GPU\nvendor: Mine\nkind: gpu\nclass: datacenter\nproduct_names: [Mine 9000]\nbandwidth: 1 TB/s\n"
        "memory: {nominal: 10 GB, source: [me]}\nconfidence: low\nsources:\n  me: {cite: a guess, read: 2026-11-29}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    machine(detect.Found("Mine 9000", 10 * GIB))
    assert hardware.load("auto").id == "mine"


def test_a_command_says_what_auto_was(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine(detect.Found("NVIDIA H100 80GB HBM3", 81559 * MIB))
    assert main(["fit", "-m", "Qwen/Qwen3-8B", "-d", "auto", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["hardware"]["id"] == "h100-sxm"
    assert any("'auto' is taken as h100-sxm" in line for line in answer["assumptions"])
