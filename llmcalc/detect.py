"""What this machine computes on, in its drivers' own words. Which profile that is, `hardware` decides.

NVIDIA's GPUs are asked through NVML (extra `detect`), AMD's through sysfs and rocm-smi, Apple's through sysctl and
system_profiler, a CPU through /proc. Whatever cannot be asked is not there.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

Run = Callable[..., str]


class Found(NamedTuple):
    """Alike devices of this machine."""

    name: str
    """As the driver writes it."""
    memory_bytes: int
    """The total of one device."""
    number: int = 1
    cores: int | None = None
    """GPU cores, where the name leaves them open (Apple)."""
    kind: str = "gpu"
    """gpu, apple or cpu."""


def local() -> list[Found]:
    """The devices of this machine: GPUs if there are any, else the CPU."""
    gpus = [*nvidia(), *amd(), *apple()]
    return gpus or cpu()


def nvidia(nvml: Any = None) -> list[Found]:
    """What NVML reports; nothing without the module or a driver."""
    try:
        nvml = nvml or import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # the module is missing, or NVML says that the driver is
        return []
    seen: Counter[tuple[str, int]] = Counter()
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            name = nvml.nvmlDeviceGetName(handle)
            try:
                total = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            except nvml.NVMLError:  # GB10 and Jetson: the memory is the system's
                total = _system_memory()
            seen[name.decode() if isinstance(name, bytes) else str(name), total] += 1
    except nvml.NVMLError:
        pass  # a GPU that fell off the bus; what was counted stays
    finally:
        nvml.nvmlShutdown()
    return [Found(name, total, count) for (name, total), count in seen.items()]


def amd(root: Path = Path("/sys/class/drm"), run: Run | None = None) -> list[Found]:
    """What the amdgpu driver reports; rocm-smi is asked only for names that sysfs leaves out."""
    cards = [
        card for card in sorted(root.glob("card*/device")) if _text(card / "vendor") == "0x1002" and _text(card / "mem_info_vram_total")
    ]
    names: dict[str, str] = {}
    if any(not _text(card / "product_name") for card in cards):
        try:
            answer = json.loads((run or _run)("rocm-smi", "--showproductname", "--json"))
            names = {card: str({key.lower(): value for key, value in row.items()}.get("card series", "")) for card, row in answer.items()}
        except (ValueError, AttributeError):
            names = {}
    seen: Counter[tuple[str, int]] = Counter()
    for card in cards:
        name = _text(card / "product_name") or names.get(card.parent.name, "")
        total = _text(card / "mem_info_vram_total")
        if name and total.isdigit():
            seen[name, int(total)] += 1
    return [Found(name, total, count) for (name, total), count in seen.items()]


def apple(run: Run | None = None, platform: str = sys.platform) -> list[Found]:
    """What macOS reports of an Apple chip: its name, its memory and the cores of its GPU."""
    ask = run or _run
    name = ask("sysctl", "-n", "machdep.cpu.brand_string").strip() if platform == "darwin" else ""
    if not name.startswith("Apple"):
        return []
    memory = ask("sysctl", "-n", "hw.memsize").strip()
    cores = re.search(r'"sppci_cores"\s*:\s*"(\d+)"', ask("system_profiler", "-json", "SPDisplaysDataType"))
    return [Found(name, int(memory), 1, int(cores[1]) if cores else None, "apple")] if memory.isdigit() else []


def cpu(proc: Path = Path("/proc")) -> list[Found]:
    """What Linux reports of the processor; one per socket, with the whole memory."""
    text = _text(proc / "cpuinfo")
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    sockets = len(set(re.findall(r"^physical id\s*:\s*(\d+)$", text, re.MULTILINE))) or 1
    memory = _system_memory(proc)
    return [Found(name[1].strip(), memory, sockets, None, "cpu")] if name and memory else []


def _system_memory(proc: Path = Path("/proc")) -> int:
    found = re.search(r"^MemTotal:\s*(\d+) kB", _text(proc / "meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _run(*command: str) -> str:
    """What a program of the system prints; nothing where it is missing, slow or fails."""
    import subprocess

    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout  # noqa: S603 - fixed words
    except (OSError, subprocess.SubprocessError):
        return ""
