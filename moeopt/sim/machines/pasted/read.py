"""Reading pasted text of any of the tools that are known, one or several in a file."""

from collections.abc import Callable, Iterable

from moeopt.core.errors import InputError
from moeopt.core.wording import shortened

from .bandwidth import of_mlc, of_stream
from .facts import Fact
from .gpu import of_csv, of_list, of_llama_cpp, of_query, of_table
from .host import of_dmidecode, of_lscpu, of_meminfo, of_numactl, of_system_profiler

READERS: tuple[Callable[[str], list[Fact]], ...] = (
    *(of_system_profiler, of_lscpu, of_dmidecode, of_numactl, of_meminfo),
    *(of_query, of_table, of_csv, of_llama_cpp, of_list),
    *(of_mlc, of_stream),
)
"""In this order: of two facts of one name the first one counts."""

TOOLS = (
    "lscpu (LC_ALL=C), /proc/cpuinfo, /proc/meminfo, dmidecode -t memory, numactl -H, nvidia-smi"
    " (also -L, -q, --query-gpu), system_profiler SPHardwareDataType, STREAM,"
    " Intel MLC, llama.cpp's log"
)


def facts_of(texts: Iterable[tuple[str, str]]) -> list[Fact]:
    """Return the facts in texts.

    Parameters
    ----------
    texts
        Where each comes from, and the text.

    Raises
    ------
    InputError
        If a text has none: it says how the text begins and what could be read.
    """
    found: dict[str, Fact] = {}
    for where, text in texts:
        facts = [fact for reader in READERS for fact in reader(text)]
        if not facts:
            begins = next((line.strip() for line in text.split("\n") if line.strip()), "")
            said = f"begins with {shortened(begins)!r}" if begins else "is empty"
            reason = f"{said}, and says nothing of a machine as one of these does: {TOOLS}"
            raise InputError(reason, where=where)
        for fact in facts:
            found.setdefault(fact.name, fact)
    return [*found.values()]
