"""GPUs in pasted text: nvidia-smi's table, ``-L``, ``-q`` and CSV, and llama.cpp's log."""

import re

from moeopt.sim.machines.system import LANE_GB_S

from .facts import MOST_DEVICES, Fact, clean, lines_of


def _facts(number: int, name: str, mib: str, link: tuple[str, str], said: str) -> list[Fact]:
    """Return what is known of a GPU; what is empty is not."""
    facts = [Fact(f"gpu{number}.name", clean(name), "", said)]
    if mib and int(mib):
        facts.append(Fact(f"gpu{number}.memory_gib", round(int(mib) / 1024, 2), "GiB", said))
    generation, width = link
    lane = LANE_GB_S.get(int(generation or 0))
    if lane and width and 1 <= int(width) <= 32:
        source = f"{said}: PCIe {generation} x{width}, at most"
        rate = round(lane * int(width), 2)
        facts.append(Fact(f"gpu{number}.pcie_gb_s", rate, "GB/s", source))
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
        for fact in _facts(number, name, mib, ("", ""), "nvidia-smi")
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
        link = (generation[1] if generation else "", width[1] if width else "")
        facts += _facts(number, name, memory[1] if memory else "", link, "nvidia-smi -q")
    return facts


COLUMNS = {
    "name": ("name", "gpu_name"),
    "memory": ("memory.total", "memory.total [mib]"),
    "generation": ("pcie.link.gen.max", "pcie.link.gen.gpumax"),
    "width": ("pcie.link.width.max",),
}
"""What is read of ``nvidia-smi --query-gpu=... --format=csv``, by the names of its columns."""


def of_csv(text: str) -> list[Fact]:
    """Return the GPUs of ``nvidia-smi --query-gpu``; without a header name and memory alone."""
    lines = [line for line in lines_of(text) if "," in line and len(line) < 1000]
    heads: list[str] = []
    facts: list[Fact] = []
    number = 0
    for line in lines:
        row = [cell.strip(' "') for cell in line.split(",")]
        low = [cell.lower() for cell in row]
        if any(name in low for name in COLUMNS["name"]) and any("." in cell for cell in low):
            heads = low
            continue
        if number == MOST_DEVICES:
            break
        if heads and len(row) == len(heads):
            seen = {key: _cell(row, heads, names) for key, names in COLUMNS.items()}
        elif re.fullmatch(r"(NVIDIA|Tesla|Quadro|GeForce) .{1,80}", row[0]) and len(row) > 1:
            seen = {"name": row[0], "memory": row[1], "generation": "", "width": ""}
            if len(row) == 4:
                seen |= {"generation": row[2], "width": row[3]}
        else:
            continue
        mib, generation, width = (_whole(seen[key]) for key in ("memory", "generation", "width"))
        if seen["name"]:
            link = (generation, width)
            facts += _facts(number, seen["name"], mib, link, "nvidia-smi --query-gpu")
            number += 1
    return facts


def _cell(row: list[str], heads: list[str], names: tuple[str, ...]) -> str:
    return next((row[heads.index(name)] for name in names if name in heads), "")


def _whole(text: str) -> str:
    found = re.match(r"(\d{1,9})(?: MiB)?$", text)
    return found[1] if found else ""


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

METAL = re.compile(r"ggml_metal\w{0,20}: found device: (?P<name>Apple .{1,40})$", re.MULTILINE)


def of_llama_cpp(text: str) -> list[Fact]:
    """Return the GPUs and buffers that llama.cpp's log names."""
    facts: list[Fact] = []
    for pattern in LLAMA_CPP:
        for number, found in enumerate(pattern.finditer(text)):
            if number == MOST_DEVICES:
                break
            mib = found.groupdict().get("mib") or ""
            facts += _facts(number, found["name"], mib, ("", ""), "llama.cpp's log")
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
