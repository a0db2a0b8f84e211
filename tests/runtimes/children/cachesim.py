"""libCacheSim's own simulation of exported traces; prints the misses of each."""

import json
import sys

import libcachesim

given = json.loads(sys.argv[1])
options = libcachesim.ReaderInitParam(
    ignore_obj_size=True, has_header=True, delimiter=",", obj_id_is_num=True
)
options.time_field, options.obj_id_field, options.obj_size_field = 1, 2, 3
kind = {
    ".csv": libcachesim.TraceType.CSV_TRACE,
    ".oracleGeneral": libcachesim.TraceType.ORACLE_GENERAL_TRACE,
}
found = []
for file, policy, size in given:
    ending = "." + file.rsplit(".", 1)[1]
    reader = libcachesim.TraceReader(file, kind[ending], options)
    ratio, _ = getattr(libcachesim, policy)(cache_size=size).process_trace(reader)
    found.append(ratio)
print(json.dumps(found))
