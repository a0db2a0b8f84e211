"""What other machines' tools print, shortened to what matters."""

from collections.abc import Mapping, Sequence

from tests.rooms.sim import Probe

LSCPU = """\
Architecture:            x86_64
CPU(s):                  {cpus}
Vendor ID:               AuthenticAMD
Model name:              {name}
Thread(s) per core:      2
Core(s) per socket:      {cores}
Socket(s):               {sockets}
Flags:                   fpu avx2 {flags}
L3 cache:                256 MiB (8 instances)
{more}"""

DIMM = """\
Handle 0x0025, DMI type 17, 92 bytes
Memory Device
	Array Handle: 0x0023
	Size: {size}
	Locator: {locator}
	Bank Locator: {bank}
	Type: DDR5
	Speed: 5600 MT/s
	Configured Memory Speed: {speed}

"""

MEMINFO = "MemTotal:       396361728 kB\nMemFree:  1000 kB\nMemAvailable:   390000000 kB\n"


def lscpu(
    name: str, cores: int, sockets: int = 1, flags: str = "avx512f", virtual: bool = False
) -> str:
    """Return what lscpu prints."""
    more = "Hypervisor vendor:       KVM\n" if virtual else ""
    cpus = 2 * cores * sockets
    return LSCPU.format(name=name, cores=cores, sockets=sockets, cpus=cpus, flags=flags, more=more)


def dmidecode(places: Sequence[tuple[str, str]], speed: str = "4800 MT/s", empty: int = 0) -> str:
    """Return what dmidecode prints of DIMMs at (bank locator, locator), and of empty slots."""
    text = "# dmidecode 3.5\nPhysical Memory Array\n\tNumber Of Devices: 24\n\n"
    for bank, locator in places:
        text += DIMM.format(size="32 GB", bank=bank, locator=locator, speed=speed)
    for _ in range(empty):
        text += DIMM.format(size="No Module Installed", bank="x", locator="x", speed="Unknown")
    return text


TWELVE = [(f"P0 CHANNEL {letter}", "DIMM 0") for letter in "ABCDEFGHIJKL"]


def fake(commands: Mapping[str, str], files: Mapping[str, str] | None = None) -> Probe:
    """Return a system on which only these commands and files exist."""
    there = {"/proc/meminfo": MEMINFO} | dict(files or {})
    return Probe(there.get, lambda command: commands.get(command[0]))


WORKSTATION = fake(
    {
        "lscpu": lscpu("AMD EPYC 9354 32-Core Processor", 32),
        "dmidecode": dmidecode(TWELVE, empty=12),
        "nvidia-smi": "NVIDIA GeForce RTX 4090, 24564, 4, 16\n",
    }
)
"""RTX 4090 + EPYC, 12 channels DDR5-4800, 384 GB."""

CLOUD = fake({"lscpu": lscpu("AMD EPYC", 2, virtual=True)})
"""A virtual machine without a GPU that says little."""
