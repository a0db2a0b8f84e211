"""What tools printed on other machines: facts, the machine by name, and its fields."""

import io
import json
from pathlib import Path

import pytest

from moeopt import InputError, get_machine
from tests.refusals import refused, refused_command
from tests.rooms.cli import run
from tests.rooms.sim import conclude, decoded, facts_of
from tests.sim.hardware.fake_systems import TWELVE, dmidecode, lscpu

DATA = Path(__file__).parents[1] / "data" / "pasted"


def pasted(*texts: str, machine: str = "") -> dict[str, object]:
    """Return what follows from texts or the files so called: machine, changes and notes."""
    given = [(DATA / text).read_text() if text.endswith(".txt") else text for text in texts]
    found = conclude(facts_of(("here", decoded(text.encode(), "here")) for text in given), machine)
    return {"machine": found.machine, "notes": found.notes} | {
        field: value for field, (value, _) in found.changes.items()
    }


def facts(text: str) -> dict[str, object]:
    """Return the facts of a file of `DATA`."""
    return {fact.name: fact.value for fact in facts_of([(text, (DATA / text).read_text())])}


def test_a_workstation() -> None:
    """CPU, DIMMs, card and a measured rate: the part's fields change where they differ."""
    query = "nvidia-smi-query-gpu.txt"
    found = pasted("lscpu.txt", dmidecode(TWELVE, empty=12), query, "mlc.txt")
    notes = found.pop("notes")
    assert found == {
        "machine": "rtx4090+epyc-9005",
        "dram.speed_mt_s": 4800.0,
        "dram.capacity_gib": 384,
        "dram.measured_gb_s": 276.5,
    }
    assert isinstance(notes, tuple)
    assert notes[0] == "NVIDIA GeForce RTX 4090 is taken for GPU rtx4090"
    assert "is taken for host epyc-9005" in notes[1]


def test_several_cards_and_sockets() -> None:
    """As the name of a machine has them; a rate is a share for each socket."""
    assert pasted("lscpu.txt", "nvidia-smi.txt")["machine"] == "2xrtx3090+epyc-9005"
    found = pasted(lscpu("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", 32, 2), "stream.txt")
    assert found["machine"] == "2xxeon-icx"
    assert found["dram.measured_gb_s"] == pytest.approx(151.08 / 2)


def test_an_apple_chip() -> None:
    """The memory is what is there, and the GPU may have three quarters of it."""
    found = pasted("system_profiler.txt")
    assert (found["machine"], found["dram.capacity_gib"]) == ("m3-max", 64)
    assert found["gpu.most_gib"] == 48


def test_measured_bandwidths() -> None:
    """STREAM's Triad counts three of four transfers; nothing is faster than the memory."""
    assert facts("stream.txt")["cpu.read_gb_s"] == pytest.approx(113310.7 * 4 / 3 / 1000, abs=0.01)
    assert facts("stream.txt")["stream.copy_gb_s"] == 152.03
    assert facts("mlc.txt") == {"cpu.read_gb_s": 276.5}
    assert pasted("mlc.txt", machine="epyc-7002")["dram.measured_gb_s"] == 204.8


def test_what_each_tool_tells() -> None:
    """Field by field."""
    assert facts("numactl.txt")["node1.capacity_gib"] == 251.97
    assert facts("numactl.txt")["dram.capacity_gib"] == 503.5
    assert facts("nvidia-smi.txt")["gpu1.memory_gib"] == 24
    assert facts("nvidia-smi-q.txt") == {
        "gpu0.name": "NVIDIA GeForce RTX 4060 Laptop GPU",
        "gpu0.memory_gib": 8,
        "gpu0.pcie_gb_s": 15.75,
    }
    assert facts("llama.cpp.txt")["runtime.CUDA0.kv_mib"] == 1472
    one = facts_of([("x", "NVIDIA A100-SXM4-80GB, 81920 MiB\n")])
    assert [fact.value for fact in one] == ["NVIDIA A100-SXM4-80GB", 80]
    listed = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: G)\n"
    assert len(facts_of([("x", listed)])) == 2
    proc = "processor\t: 0\nmodel name\t: AMD Ryzen 9 9950X 16-Core Processor\ncpu cores\t: 16\n"
    assert pasted(proc)["machine"] == "ryzen-am5"


def test_what_is_not_known_is_told() -> None:
    """With the nearest; the facts stand."""
    found = pasted("lscpu.txt", "NVIDIA GeForce RTX 4010, 8192 MiB\n")
    assert found["machine"] is None
    assert "no GPU is called 'NVIDIA GeForce RTX 4010'" in str(found["notes"])
    assert "--machine rtx4090+HOST" in str(pasted("nvidia-smi-query-gpu.txt")["notes"])
    assert "no host is called 'Ampere(R) Altra(R)'" in str(
        pasted(lscpu("Ampere(R) Altra(R)", 80))["notes"]
    )


@pytest.mark.parametrize("text", ["", "\n\n", "hello\nthere", "{}", "x" * 10**5, "\x1b[31m|||"])
def test_text_that_says_nothing_is_refused(text: str) -> None:
    """In a line that says how it begins."""
    said = refused(facts_of, [("file.txt", decoded(text.encode(), "file.txt"))])
    assert said.startswith("file.txt: ")
    assert ("is empty" in said) == (not text.strip())
    assert len(said) < 400


def test_texts_of_other_encodings() -> None:
    """UTF-16, as PowerShell writes it; what is no text is refused."""
    text = (DATA / "lscpu.txt").read_text()
    assert facts_of([("x", decoded(text.encode("utf-16"), "x"))])
    assert facts_of([("x", decoded(text.replace("\n", "\r\n").encode(), "x"))])
    with pytest.raises(InputError, match="is no text"):
        decoded(b"\x7fELF\0\0", "x")
    with pytest.raises(InputError, match="larger than 4 MiB"):
        decoded(b"x" * (4 * 2**20 + 1), "x")


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words that set what was read, a file, and standard input."""
    files = [str(DATA / name) for name in ("lscpu.txt", "nvidia-smi-query-gpu.txt", "mlc.txt")]
    assert run(["machine", "read", *files]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    words = "rtx4090+epyc-9005 dram.measured_gb_s=276.5 --out mine.json"
    assert last == f"moeopt machine set {words}"
    monkeypatch.chdir(tmp_path)
    assert run(last.split()[1:]) == 0
    assert run(["machine", "read", *files, "--out", "read.json"]) == 0
    read, mine = get_machine("read.json"), get_machine("mine.json")
    assert read.nodes == mine.nodes
    assert read.sources["devices.numa0.memory.measured_gb_s"] == "Intel MLC: ALL Reads"
    capsys.readouterr()
    text = io.TextIOWrapper(io.BytesIO((DATA / "system_profiler.txt").read_bytes()))
    monkeypatch.setattr("sys.stdin", text)
    assert run(["machine", "read", "-", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["machine"] == "m3-max"
    assert told["changes"] == {"dram.capacity_gib": 64, "gpu.most_gib": 48.0}
    said = refused_command(capsys, ["machine", "read", files[1], "--out", "x.json"])
    assert "needs --machine: " in said
    said = refused_command(capsys, ["machine", "read", files[0], "--nothing"])
    assert "is not an option of" in said


CARDS = """\
index, name, memory.total [MiB], pcie.link.gen.max, pcie.link.width.max
0, NVIDIA GeForce RTX 3090, 24576 MiB, 4, 16
1, NVIDIA GeForce RTX {}, 24576 MiB, 4, 8
"""


def test_cards_that_differ_keep_their_own_numbers() -> None:
    """A short name means every GPU: it stands for what all of them share."""
    host = lscpu("AMD EPYC 9654 96-Core Processor", 96, 2)
    found = pasted(host, CARDS.format("3090"))
    assert found["machine"] == "2xrtx3090+2xepyc-9004"
    links = {field: value for field, value in found.items() if field.startswith("links.")}
    assert links == {"links.gpu1-numa0.gb_s": 15.75, "links.gpu1-numa1.gb_s": 15.75}
    assert "pcie.gb_s" not in pasted(CARDS.format("4090"))
    small = pasted(
        host, CARDS.format("3090").replace("1, NVIDIA", "1,NVIDIA").replace("24576", "9216")
    )
    assert small["gpu.capacity_gib"] == 9


def test_the_fast_cores_of_a_hybrid_cpu() -> None:
    """i9-14900K: 24 cores, of which the 8 with two threads count; lscpu -J says the same."""
    text = lscpu("Intel(R) Core(TM) i9-14900K", 24).replace(
        "CPU(s):                  48", "CPU(s): 32"
    )
    pairs = [line.split(":", 1) for line in text.splitlines() if ":" in line]
    packed = json.dumps({"lscpu": [{"field": f"{k}:", "data": v.strip()} for k, v in pairs]})
    for said in (text, packed):
        read = {fact.name: fact for fact in facts_of([("here", said)])}
        assert (read["cpu.cores"].value, read["cpu.name"].value) == (8, pairs[3][1].strip())
        assert "performance cores" in read["cpu.cores"].source
        assert pasted(said)["machine"] == "intel-desktop"


MATRIX = """\
Intel(R) Memory Latency Checker - v3.11
Measuring idle latencies for sequential access (in ns)...
\t\tNuma node
Numa node\t     0\t     1\t
       0\t  80.1\t 139.2\t
Measuring Memory Bandwidths between nodes within system
\t\tNuma node
Numa node\t     0\t     1\t
       0\t235812.9\t100540.2\t
       1\t100611.8\t235790.5\t
"""


def test_rates_between_nodes() -> None:
    """MLC's table: each node's own memory, together; the link is as the slower direction."""
    read = {fact.name: fact.value for fact in facts_of([("here", MATRIX)])}
    assert read == {
        "node0.read_gb_s": 235.81,
        "node1.read_gb_s": 235.79,
        "cpu.read_gb_s": 471.6,
        "socket.read_gb_s": 100.54,
    }
    found = pasted(lscpu("AMD EPYC 9654 96-Core Processor", 96, 2), MATRIX)
    assert (found["dram.measured_gb_s"], found["socket.gb_s"]) == (235.8, 100.54)
    with pytest.raises(InputError, match=r"begins with 'Intel\(R\) Memory.*says nothing of a mach"):
        facts_of([("here", MATRIX.replace("235790.5", "-"))])


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (
            "  Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32",
            "rx7900xtx",
        ),
        ("ggml_vulkan: 0 = AMD Radeon RX 7900 XTX (RADV NAVI31) (radv) | uma: 0 |", "rx7900xtx"),
        (
            "load_from_file: using device CUDA0 (NVIDIA GeForce RTX 4090) - 23306 MiB free",
            "rtx4090",
        ),
    ],
)
def test_logs_of_other_backends(line: str, part: str) -> None:
    """ROCm, Vulkan, and the line that all of them print."""
    found = pasted(f"{line}\n", lscpu("AMD Ryzen 9 9950X 16-Core Processor", 16))
    assert found["machine"] == f"{part}+ryzen-am5"


@pytest.mark.parametrize("said", ["found device: Apple M3 Max", "GPU name:   Apple M3 Max"])
def test_metal_names_the_chip(said: str) -> None:
    """A Mac's log says which chip it is, in older words and in newer ones."""
    assert pasted(f"ggml_metal_device_init: {said}\n")["machine"] == "m3-max"


def test_a_number_of_the_whole_host_says_so() -> None:
    """Of a machine that is not named nobody knows the sockets."""
    assert "each socket of several" in str(pasted("stream.txt")["notes"])
