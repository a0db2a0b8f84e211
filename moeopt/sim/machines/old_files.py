"""Machine files of the first form, whose numbers stood in `gpu`, `cpu`, `dram`, `ndp`, `nodes`."""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import TypeGuard

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject

NVLINK_FROM_GB_S = 100.0
"""From here on a link between GPUs is no PCIe: its fifth generation carries 63 GB/s."""

GPU = {
    "name": "name",
    "peak_tflops": "peak_tflops",
    "vector_tflops": "vector_tflops",
    "clock_ghz": "clock_ghz",
    "kernel_us": "kernel_us",
    "layer_fixed_us": "layer_us",
    "step_fixed_us": "step_us",
    "reserve_mib": "reserve_mib",
}
GPU_MEMORY = {
    "hbm_gb": "capacity_gib",
    "hbm_gb_s": "gb_s",
    "bandwidth_efficiency": "reached",
    "attention_bandwidth_efficiency": "attention_reached",
}
CPU = {"name": "name", "bandwidth_efficiency": "reached", "kernel_us": "kernel_us"}
DRAM = {"capacity_gb": "capacity_gib", "striped_gb_s": "gb_s", "efficiency": "reached"}
DIMMS = {
    "dimms": "count",
    "channels": "channels",
    "speed_mt_s": "speed_mt_s",
    "localized_gb_s": "one_gb_s",
}
NDP = {"internal_gb_s": "internal_gb_s", "units": "units", "gflops_bits": "rate_bits"}
NUMA = ("sockets", "local_gb_s", "cross_socket_gb_s", "placement")
NODE = ("name", "cores", "bandwidth_gb_s", "capacity_gb")
LINK = ("from", "to", "gb_s", "latency_us")
KERNEL = ("name", "max_tokens", "tflops")
PLAIN = ("name", "sync_us", "runtimes")

MOST = 64
"""As many GPUs, or nodes, a file of the first form could have."""

LARGEST = 1e12
"""Above this no number is shared out or scaled: it is refused under its new name."""


def is_old(data: Mapping[str, object]) -> bool:
    """Return whether JSON data are of the first form."""
    return "devices" not in data and "schema_version" not in data


def placement_of(data: Mapping[str, object]) -> str | None:
    """Return how weights lie on several sockets by an old file, which no field says any more."""
    cpu = data.get("cpu")
    numa = cpu.get("numa") if isinstance(cpu, dict) else None
    way = numa.get("placement") if isinstance(numa, dict) else None
    return way if isinstance(way, str) else None


def converted(data: JsonObject, where: object) -> JsonObject:
    """Return the same machine in the form of today.

    What the first form held twice (`gpu` and `gpus`, `dram` and `nodes` and `cpu.numa`) is read
    where its predictions read it: the first of `gpus`, rates of `nodes`.

    Raises
    ------
    InputError
        If a part cannot be converted: it names the field.
    """
    return _Conversion(data, where).result()


class _Conversion:
    def __init__(self, data: JsonObject, where: object) -> None:
        self._data, self._where = dict(data), where
        self._sources: dict[str, str] = self._object("sources")
        for path, said in self._sources.items():
            if not isinstance(said, str):
                reason = f"must be a string, not {said!r:.40}"
                raise InputError(reason, where=where, field=f"sources.{path}")
        self._said: dict[str, str] = {}
        self._new: JsonObject = {"schema_version": 2}

    def result(self) -> JsonObject:
        """Return the machine as data of today's form."""
        known = {"gpu", "gpus", "cpu", "dram", "ndp", "pcie_gb_s", "pcie_latency_us", "links"}
        known |= {"nodes", "unified", "time_tables", "sources", *PLAIN}
        for key in self._data:
            if key not in known:
                raise InputError("is not a known key", where=self._where, field=str(key))
        for key in PLAIN:
            if self._data.get(key) is not None:
                self._move(key, key, self._data[key], self._new)
        gpus, hosts = self._gpus(), self._hosts()
        if self._data.get("unified") and gpus and hosts:
            devices = [self._unified(gpus[0], hosts[0])]
            links: list[JsonObject] = []
        else:
            devices = [*gpus, *hosts]
            links = self._links(len(gpus), hosts)
        self._new |= {"devices": devices, "links": links}
        if self._data.get("time_tables"):
            self._new["tables"] = [self._table(t, devices) for t in self._objects("time_tables")]
        for key, said in self._sources.items():
            if key == "gpu" and not gpus:
                self._said["devices"] = said
        return self._new | {"sources": self._said}

    def _object(self, key: str, of: JsonObject | None = None) -> JsonObject:
        found = (self._data if of is None else of).get(key) or {}
        if not isinstance(found, dict):
            raise InputError(f"must be an object, not {found!r:.40}", where=self._where, field=key)
        return found

    def _objects(self, key: str) -> list[JsonObject]:
        return self._rows(self._data.get(key), key)

    def _rows(self, found: object, path: str, *known: str, most: int = 10_000) -> list[JsonObject]:
        """Return a list of objects, of which each has known keys alone."""
        rows = found or []
        if not isinstance(rows, list | tuple) or not all(isinstance(x, dict) for x in rows):
            raise InputError("must be a list of objects", where=self._where, field=path)
        if len(rows) > most:
            reason = f"must be at most {most}, not {len(rows)}"
            raise InputError(reason, where=self._where, field=path)
        for row, one in enumerate(rows if known else ()):
            self._check(one, f"{path}[{row}]", *known)
        return list(rows)

    def _count(self, value: object, path: str, most: int = 65536) -> int:
        """Return a whole number from 1 on."""
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            reason = f"must be an integer from 1 to {most}, not {value!r:.40}"
            raise InputError(reason, where=self._where, field=path)
        return value

    def _need(self, path: str, of: JsonObject, key: str) -> object:
        if of.get(key) is None:
            raise InputError("is missing", where=self._where, field=f"{path}.{key}")
        return of[key]

    def _move(self, old: str, new: str, value: object, into: JsonObject) -> None:
        """Put a value under its new name, with its source."""
        into[new.rpartition(".")[2]] = value
        path = old
        while path:
            if path in self._sources:
                self._said[new] = self._sources[path]
                return
            path = path[: max(path.rfind("."), path.rfind("["), 0)]

    def _fields(
        self, names: Mapping[str, str], of: JsonObject, old: str, new: str, into: JsonObject
    ) -> None:
        for name, renamed in names.items():
            if of.get(name) is not None:
                self._move(f"{old}.{name}", f"{new}.{renamed}", of[name], into)

    def _check(self, of: JsonObject, path: str, *known: str) -> None:
        for key in of:
            if key not in known:
                raise InputError("is not a known key", where=self._where, field=f"{path}.{key}")

    def _gpus(self) -> list[JsonObject]:
        several = self._rows(self._data.get("gpus"), "gpus", most=MOST)
        first = self._object("gpu")
        paths = [f"gpus[{row}]" for row in range(len(several))] or ["gpu"] * bool(first)
        return [
            self._gpu(number, gpu, path)
            for number, (gpu, path) in enumerate(zip(several or [first], paths, strict=False))
        ]

    def _gpu(self, number: int, gpu: JsonObject, path: str) -> JsonObject:
        self._check(gpu, path, *GPU, *GPU_MEMORY, "utilization")
        base = f"devices.gpu{number}"
        memory: JsonObject = {}
        self._fields(GPU_MEMORY, gpu, path, f"{base}.memory", memory)
        compute: JsonObject = {"kind": "gpu"}
        self._fields(GPU, gpu, path, f"{base}.gpu", compute)
        used, peak = self._need(path, gpu, "utilization"), self._need(path, gpu, "peak_tflops")
        if not _is_number(peak):
            reason = f"must be a number, not {peak!r:.40}"
            raise InputError(reason, where=self._where, field=f"{path}.peak_tflops")
        curve = self._scaled(used, peak, f"{path}.utilization", most=1)
        kernels = [{"name": "main", "tflops": curve}]
        self._move(f"{path}.utilization", f"{base}.gpu.kernels", kernels, compute)
        return {"id": f"gpu{number}", "memory": memory, "computes": [compute]}

    def _scaled(self, curve: object, share: object, path: str, most: float | None = None) -> object:
        """Return a curve with its values so many times as large."""
        if not isinstance(curve, dict) or not isinstance(share, int | float):
            raise InputError("must be a curve", where=self._where, field=path)
        self._check(curve, path, "scale", "points")
        points = curve.get("points")
        try:
            for _, value in points or []:
                if most is not None and value > most:
                    reason = f"must be a fraction of peak_tflops, at most {most}, not {value:g}"
                    raise InputError(reason, where=self._where, field=path)
            return {**curve, "points": [[x, y * share] for x, y in points or []]}
        except (TypeError, ValueError, OverflowError):
            raise InputError("must be a curve", where=self._where, field=path) from None

    def _hosts(self) -> list[JsonObject]:
        dram, cpu = self._object("dram"), self._object("cpu")
        ndp, links = self._object("ndp"), self._data.get("links")
        if not dram:
            raise InputError("is missing", where=self._where, field="dram")
        self._check(dram, "dram", *DRAM, *DIMMS)
        known = (*CPU, "kernel", "tflops", "few_token_kernels", "threads", "bandwidth_gb_s", "numa")
        self._check(cpu, "cpu", *known)
        self._check(ndp, "ndp", *NDP, "gflops")
        cxl = isinstance(links, dict) and links.get("cxl") is not None
        if cxl and cpu:
            reason = "was read by nothing beside a CPU; describe the CXL box as a device cxl0"
            raise InputError(reason, where=self._where, field="links.cxl")
        if not cpu and not ndp and not self._data.get("gpu") and not self._data.get("gpus"):
            raise InputError("is missing", where=self._where, field="cpu")
        nodes = self._rows(self._data.get("nodes"), "nodes", *NODE, most=MOST)
        numa = self._object("numa", cpu)
        self._check(numa, "cpu.numa", *NUMA)
        sockets = self._count(numa.get("sockets") or 1, "cpu.numa.sockets", MOST)
        count = len(nodes) or sockets
        names = [f"cxl{row}" if cxl else f"numa{row}" for row in range(count)]
        return [
            self._host(name, row, count, dram, cpu, ndp, numa, nodes)
            for row, name in enumerate(names)
        ]

    def _host(
        self,
        name: str,
        row: int,
        count: int,
        dram: JsonObject,
        cpu: JsonObject,
        ndp: JsonObject,
        numa: JsonObject,
        nodes: list[JsonObject],
    ) -> JsonObject:
        base = f"devices.{name}"
        memory: JsonObject = {}
        self._fields(DRAM, dram, "dram", f"{base}.memory", memory)
        dimms: JsonObject = {}
        self._fields(DIMMS, dram, "dram", f"{base}.memory.dimms", dimms)
        if count > 1:
            for key in ("count", "channels"):
                if isinstance(dimms.get(key), int):
                    dimms[key] = _part(int(dimms[key]), count, row)
            for key in ("capacity_gib", "gb_s"):
                if _is_number(memory.get(key)):
                    memory[key] = memory[key] / count
        links = self._data.get("links")
        if isinstance(links, dict) and isinstance(links.get("dimm_link"), dict):
            dimms["link"] = links["dimm_link"]
            for key in ("gb_s", "latency_us"):
                if f"links.dimm_link.{key}" in self._sources:
                    said = self._sources[f"links.dimm_link.{key}"]
                    self._said[f"{base}.memory.dimms.link.{key}"] = said
        memory["dimms"] = dimms
        computes = []
        if cpu:
            computes.append(self._cpu(base, row, count, cpu, numa, nodes, memory))
        if ndp:
            computes.append(self._ndp(base, ndp))
        return {"id": name, "memory": memory, "computes": computes}

    def _cpu(
        self,
        base: str,
        row: int,
        count: int,
        cpu: JsonObject,
        numa: JsonObject,
        nodes: list[JsonObject],
        memory: JsonObject,
    ) -> JsonObject:
        compute: JsonObject = {"kind": "cpu"}
        self._fields(CPU, cpu, "cpu", f"{base}.cpu", compute)
        if count > 1 and isinstance(compute.get("name"), str):
            one = re.fullmatch(rf"{count} x (.+?)(, \d+ cores each)?", compute["name"])
            compute["name"] = one[1] if one else compute["name"]
        threads, share = cpu.get("threads"), 1.0 / count
        own = None if threads is None else _part(self._count(threads, "cpu.threads"), count, row)
        if nodes:
            cores = [
                self._count(node.get("cores"), f"nodes[{number}].cores")
                for number, node in enumerate(nodes)
            ]
            own, share = cores[row], cores[row] / sum(cores)
        if own is not None:
            self._move("nodes" if nodes else "cpu.threads", f"{base}.cpu.cores", own, compute)
        kernels = [
            {**few, "tflops": self._scaled(few.get("tflops"), share, "cpu.few_token_kernels")}
            for few in self._rows(
                cpu.get("few_token_kernels"), "cpu.few_token_kernels", *KERNEL, most=16
            )
        ]
        main = self._scaled(self._need("cpu", cpu, "tflops"), share, "cpu.tflops")
        kernels.append({"name": cpu.get("kernel") or "main", "tflops": main})
        self._move("cpu.tflops", f"{base}.cpu.kernels", kernels, compute)
        said = [self._said.get(f"{base}.cpu.kernels")]
        of = ("cpu.kernel", "cpu.few_token_kernels")
        said += [text for path, text in self._sources.items() if path.split("[")[0] in of]
        if any(said):
            self._said[f"{base}.cpu.kernels"] = "; ".join(dict.fromkeys(s for s in said if s))
        rate, path = cpu.get("bandwidth_gb_s"), "cpu.bandwidth_gb_s"
        if nodes:
            rate, path = nodes[row].get("bandwidth_gb_s"), "nodes"
            if nodes[row].get("capacity_gb") is not None:
                held = nodes[row]["capacity_gb"]
                self._move("nodes", f"{base}.memory.capacity_gib", held, memory)
        elif rate is None and numa:
            rate, path = numa.get("local_gb_s"), "cpu.numa.local_gb_s"
        elif _is_number(rate):
            rate = rate / count
        if rate is not None and rate != memory.get("gb_s"):
            self._move(path, f"{base}.memory.measured_gb_s", rate, memory)
            memory.pop("reached", None)
            self._said.pop(f"{base}.memory.reached", None)
        return compute

    def _ndp(self, base: str, ndp: JsonObject) -> JsonObject:
        compute: JsonObject = {"kind": "ndp", "name": "NDP units"}
        self._fields(NDP, ndp, "ndp", f"{base}.ndp", compute)
        gflops = self._need("ndp", ndp, "gflops")
        if not _is_number(gflops):
            raise InputError(
                f"must be a number, not {gflops!r:.40}", where=self._where, field="ndp.gflops"
            )
        curve = {"scale": "linear", "points": [[1, gflops / 1000]]}
        kernels = [{"name": "main", "tflops": curve}]
        self._move("ndp.gflops", f"{base}.ndp.kernels", kernels, compute)
        return compute

    def _unified(self, gpu: JsonObject, host: JsonObject) -> JsonObject:
        """Return one memory with a GPU and a CPU."""
        if not any(compute["kind"] == "cpu" for compute in host["computes"]):
            raise InputError("is missing", where=self._where, field="cpu")
        memory, limit = dict(gpu["memory"]), gpu["memory"].get("capacity_gib")
        whole = host["memory"].get("capacity_gib")
        compute = dict(gpu["computes"][0])
        if whole is not None:
            memory["capacity_gib"] = whole
            if limit is not None and limit != whole:
                compute["most_gib"] = limit
        cpu = dict(host["computes"][0])
        rate = host["memory"].get("measured_gb_s")
        if _is_number(rate) and _is_number(memory.get("gb_s")) and rate < memory["gb_s"]:
            cpu["most_gb_s"] = rate
        renamed = {
            "devices.gpu0.memory.capacity_gib": "devices.soc0.gpu.most_gib"
            if "most_gib" in compute
            else "",
            "devices.numa0.memory.capacity_gib": "devices.soc0.memory.capacity_gib",
            "devices.numa0.memory.measured_gb_s": "devices.soc0.cpu.most_gb_s",
        }
        said = {}
        for path, source in self._said.items():
            if path.startswith("devices.numa0.memory") and path not in renamed:
                continue
            for old in ("gpu0", "numa0"):
                path = renamed.get(path, path.replace(f"devices.{old}.", "devices.soc0."))
            if path:
                said[path] = source
        self._said = said
        return {"id": "soc0", "memory": memory, "computes": [compute, cpu]}

    def _links(self, gpus: int, hosts: list[JsonObject]) -> list[JsonObject]:
        given = self._data.get("links")
        if isinstance(given, dict):
            self._check(given, "links", "dimm_link", "cxl", "between")
            given = given.get("between")
        between: dict[frozenset[str], JsonObject] = {}
        named = {str(node.get("name")): host["id"] for node, host in self._named(hosts)}
        for row, link in enumerate(self._rows(given, "links", *LINK)):
            said = [str(link.get(end)) for end in ("from", "to")]
            found = [named.get(end, end) for end in said]
            between[frozenset(found)] = {"row": row, **link}
        links = []
        ids = [f"gpu{number}" for number in range(gpus)] + [str(host["id"]) for host in hosts]
        for ends in combinations(ids, 2):
            stated: JsonObject | None = between.pop(frozenset(ends), None)
            made = self._link(ends, stated)
            if made is not None:
                links.append(made)
        for left in between.values():
            reason = f"there is no such device; there are {', '.join(ids)}"
            raise InputError(reason, where=self._where, field=f"links[{left['row']}]")
        return links

    def _named(self, hosts: list[JsonObject]) -> Iterator[tuple[JsonObject, JsonObject]]:
        nodes = self._objects("nodes") or [{"name": "host"}]
        yield from zip(nodes, hosts, strict=False)

    def _link(self, ends: tuple[str, str], link: JsonObject | None) -> JsonObject | None:
        """Return a link in the form of today; None where there is none."""
        made: JsonObject = {"ends": list(ends)}
        path = "links." + "-".join(ends)
        ours = [end.startswith("gpu") for end in ends]
        numa = self._object("numa", self._object("cpu"))
        if link is not None:
            rate = link.get("gb_s")
            made |= {k: link[k] for k in ("gb_s", "latency_us") if link.get(k) is not None}
            fast = isinstance(rate, int | float) and rate >= NVLINK_FROM_GB_S
            kind = "nvlink" if all(ours) and fast else "pcie" if any(ours) else "socket"
            if "links" in self._sources:
                self._said[path] = self._sources["links"]
        elif any(ours) and not all(ours):
            self._move("pcie_gb_s", f"{path}.gb_s", self._data.get("pcie_gb_s"), made)
            if made["gb_s"] is None:
                raise InputError("is missing", where=self._where, field="pcie_gb_s")
            if self._data.get("pcie_latency_us") is not None:
                late = self._data["pcie_latency_us"]
                self._move("pcie_latency_us", f"{path}.latency_us", late, made)
            kind = "cxl" if ends[1].startswith("cxl") else "pcie"
        elif not any(ours) and numa.get("cross_socket_gb_s") is not None:
            rate = numa["cross_socket_gb_s"]
            self._move("cpu.numa.cross_socket_gb_s", f"{path}.gb_s", rate, made)
            kind = "socket"
        else:
            return None
        return made | {"kind": kind}

    def _table(self, table: JsonObject, devices: list[JsonObject]) -> JsonObject:
        made = {key: value for key, value in table.items() if key != "device"}
        kind = table.get("device")
        gpu = next((d["id"] for d in devices if str(d["id"]).startswith(("gpu", "soc"))), "gpu0")
        host = next((d["id"] for d in devices if not str(d["id"]).startswith("gpu")), "numa0")
        at = {"gpu": [gpu, "gpu"], "cpu": [host, "cpu"], "ndp": [host, "ndp"]}
        at |= {"pcie": [gpu, host]}
        if str(kind) not in at:
            known = " or ".join(at)
            raise InputError(
                f"must be {known}, not {kind!r:.40}", where=self._where, field="time_tables.device"
            )
        return made | {"at": at[str(kind)]}


def _is_number(value: object) -> TypeGuard[float]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= LARGEST


def _part(whole: int, count: int, row: int) -> int:
    """Return one node's part of a number: the first have one more where it does not divide."""
    return max(1, whole // count + (row < whole % count))
