"""GPUs in pasted text: nvidia-smi's table, ``-L``, ``-q`` and CSV, and llama.cpp's log."""

import re
from itertools import islice

from moeopt.sim.machines.system import Card, nvidia_rows

from .facts import MOST_DEVICES, Fact, clean, lines_of


def _facts(number: int, card: Card, said: str) -> list[Fact]:
    """Return what is known of a GPU."""
    facts = [Fact(f"gpu{number}.name", clean(card.name), "", said)]
    if card.memory_gib:
        facts.append(Fact(f"gpu{number}.memory_gib", card.memory_gib, "GiB", said))
    if (rate := card.link_gb_s) is not None:
        facts.append(Fact(f"gpu{number}.pcie_gb_s", rate, "GB/s", f"{said}: {card.link_said}"))
    return facts


def of_table(text: str) -> list[Fact]:
    """Return the GPUs of the table that ``nvidia-smi`` prints."""
    found: list[list[str]] = []
    for line in lines_of(text):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3:
            continue
        head = re.match(
            r"(\d{1,2})\s+(\S.*?)(?:\s{2,}| )(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!)$", cells[0]
        )
        memory = re.match(r"\d{1,9}MiB\s*/\s*(\d{1,9})MiB", cells[1])
        if head and re.match(r"[0-9A-Fa-f]{8}:", cells[1]):
            found.append([head[2], ""])
        elif memory and found and not found[-1][1]:
            found[-1][1] = memory[1]
    return [
        fact
        for number, (name, mib) in enumerate(found[:MOST_DEVICES])
        for fact in _facts(number, Card(name, mib), "nvidia-smi")
    ]


def of_list(text: str) -> list[Fact]:
    """Return the GPUs that ``nvidia-smi -L`` lists."""
    names = re.findall(r"^GPU \d{1,2}: (.{1,100}?) \(UUID:", text, re.MULTILINE)
    return [
        Fact(f"gpu{number}.name", clean(name), "", "nvidia-smi -L")
        for number, name in enumerate(names[:MOST_DEVICES])
    ]


def of_query(text: str) -> list[Fact]:
    """Return the GPUs of ``nvidia-smi -q``."""
    if not re.search(r"^\s*Product Name\s*:", text, re.MULTILINE):
        return []
    facts: list[Fact] = []
    for number, block in enumerate(
        re.split(r"^\s*Product Name\s*: ", text, flags=re.MULTILINE)[1:]
    ):
        if number == MOST_DEVICES:
            break
        name = block.partition("\n")[0]
        memory = re.search(r"FB Memory Usage\s+Total\s*: (\d{1,9}) MiB", block)
        generation = re.search(r"PCIe Generation\s+Max\s*: (\d)", block)
        width = re.search(r"Link Width\s+Max\s*: (\d{1,2})x", block)
        sizes = (found[1] if found else "" for found in (memory, generation, width))
        facts += _facts(number, Card(name, *sizes), "nvidia-smi -q")
    return facts


def of_csv(text: str) -> list[Fact]:
    """Return the GPUs of ``nvidia-smi --query-gpu``."""
    return [
        fact
        for number, card in enumerate(islice(nvidia_rows(text), MOST_DEVICES))
        for fact in _facts(number, card, "nvidia-smi --query-gpu")
    ]


LLAMA_CPP = [
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^\s*Device \d{1,2}: (?P<name>.{1,100}?), compute capability[^\n]{0,80}?"
        r"(?:VRAM: (?P<mib>\d{1,9}) MiB)?$",
        r"^\s*Device \d{1,2}: (?P<name>.{1,100}?), gfx\d",
        r"ggml_vulkan: \d{1,2} = (?P<name>[^|(\n]{1,100}?) ?(?:\([^|\n]{0,80})?\|",
        r"using device (?:CUDA|ROCm|Vulkan|SYCL)\d{1,2} \((?P<name>[^()\n]{1,100})\)",
    )
]
"""How logs name GPUs, by backend; the first one that a log has counts."""

METAL = re.compile(
    r"ggml_metal\w{0,20}: (?:found device|GPU name):\s{1,9}(?P<name>Apple .{1,40})$", re.MULTILINE
)


def of_llama_cpp(text: str) -> list[Fact]:
    """Return the GPUs and buffers that llama.cpp's log names."""
    facts: list[Fact] = []
    for pattern in LLAMA_CPP:
        for number, found in enumerate(pattern.finditer(text)):
            if number == MOST_DEVICES:
                break
            mib = found.groupdict().get("mib") or ""
            facts += _facts(number, Card(found["name"], mib), "llama.cpp's log")
        if facts:
            break
    if (chip := METAL.search(text)) is not None:
        facts.append(Fact("chip.name", clean(chip["name"]), "", "llama.cpp's log"))
    buffers = re.findall(
        r"\b([A-Za-z_]{2,20}\d{0,2}) (model|KV|compute) buffer size\s*=\s*(\d{1,9}\.\d{1,4}) MiB",
        text,
    )
    sums: dict[str, float] = {}
    for device, kind, mib in buffers[: 4 * MOST_DEVICES]:
        name = f"runtime.{device}.{kind.lower()}_mib"
        sums[name] = round(sums.get(name, 0.0) + float(mib), 2)
    said = "llama.cpp's log: buffer size"
    return facts + [Fact(name, mib, "MiB", said) for name, mib in sums.items()]
