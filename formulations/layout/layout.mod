# layout: layout and schedules decided together (TriMoE 4.3, Eq. 1-7). See spec.md.
# Usable with plain glpsol: glpsol -m layout.mod -d instance.dat

set scenarios;                                # trace windows, 0, 1, ...
param experts, integer, >= 1;                 # number of experts of the layer
param dimms, integer, >= 1;                   # number of DIMMs, each with an NDP unit
param hbm_slots, integer, >= 0;               # residents that the GPU's memory has room for
param dimm_slots, integer, default experts;   # localized experts that a DIMM has room for
param dram_striped_ns, >= 0;                  # a host's read of a striped expert, on every DIMM
param dram_localized_ns, >= 0;                # a host's read of a localized expert, on its DIMM

param dimm_share{0..1}, integer, default 1;   # part of a striped read that each DIMM is busy
param gpu_base_ns, default 0;                 # the GPU is busy before any expert
param channels_length, default 0;             # 0: memory channels are no limit
param channels{d in 0..dimms-1}, integer;     # the channel of each DIMM

param copies_max_per_expert, integer, default 0;  # 0: one place each, memory is no limit
param copies_expert_bytes, integer, default 1;
param copies_dimm_bytes, integer, default 0;      # bytes of a DIMM for this layer
param copies_reserved_bytes, integer, default 0;  # those that hold something else

set E := 0..experts-1;
set channel_set := setof{d in 0..channels_length-1} channels[d];
param charge_ns := ceil(dram_striped_ns * dimm_share[0] / dimm_share[1]);

param weight{scenarios}, integer, >= 1;
param tokens{scenarios, E}, integer, >= 0;
param gpu_hit_ns{scenarios, E}, >= 0;             # Eq. 1
param gpu_miss_striped_ns{scenarios, E}, >= 0;    # Eq. 2
param gpu_miss_localized_ns{scenarios, E}, >= 0;  # Eq. 2
param cpu_striped_ns{scenarios, E}, >= 0;         # Eq. 3
param cpu_localized_ns{scenarios, E}, >= 0;       # Eq. 3
param ndp_ns{scenarios, E}, >= 0;                 # Eq. 4
param gpu_calc_ns{scenarios, E}, default -1;      # a miss keeps the GPU busy; -1: as a whole
param pcie_striped_ns{scenarios, E}, default 0;   # and PCIe
param pcie_localized_ns{scenarios, E}, default 0;

param output, symbolic, default "/dev/stdout";    # where the solution is printed, as JSON

set active := setof{s in scenarios, i in E: tokens[s,i] > 0} i;
set pairs := setof{s in scenarios, i in E: tokens[s,i] > 0} (s,i);
# DIMMs of a channel are identical, and channels of as many DIMMs: numbered by their first expert,
# before an expert lies on a DIMM each lower one of that channel and each lower such channel has one.
param first_dimm{c in channel_set} := min{d in 0..dimms-1: channels[d] = c} d;
param dimms_of{c in channel_set} := card({d in 0..dimms-1: channels[d] = c});
param experts_before{d in 0..dimms-1} := if channels_length = 0 then d
    else card({e in 0..d-1: channels[e] = channels[d]})
        + card({c in channel_set: first_dimm[c] < first_dimm[channels[d]]
            and dimms_of[c] = dimms_of[channels[d]]});
# With copies every expert has a place to choose: it takes bytes from others, tokens or not.
set several := setof{i in E: copies_max_per_expert > 0} i;
set places := setof{i in active union several, d in 0..dimms-1:
    copies_max_per_expert > 0 or experts_before[d] <= card(active inter 0..i-1)} (i,d);
param share_bytes := ceil(copies_expert_bytes / dimms);
set host_ways := {"hit", "gpu_striped", "gpu_local", "cpu_striped", "cpu_local"};
set ways := host_ways union {"ndp_nowhere"};

param cost_ns{(s,i) in pairs, w in host_ways} :=
    if w = "hit" then gpu_hit_ns[s,i]
    else if w in {"gpu_striped", "gpu_local"} and gpu_calc_ns[s,i] >= 0 then gpu_calc_ns[s,i]
    else if w = "gpu_striped" then gpu_miss_striped_ns[s,i]
    else if w = "gpu_local" then gpu_miss_localized_ns[s,i]
    else if w = "cpu_striped" then cpu_striped_ns[s,i] else cpu_localized_ns[s,i];
param longest{(s,i) in pairs} :=
    max(dram_striped_ns, dram_localized_ns, ndp_ns[s,i], pcie_striped_ns[s,i],
        pcie_localized_ns[s,i], max{w in host_ways} cost_ns[s,i,w]);
# Microseconds suit GLPK's absolute tolerances; numbers far above 10^7 do not.
param unit := 10 ^ max(3, ceil(log10(1 + sum{s in scenarios} weight[s] * gpu_base_ns
    + sum{(s,i) in pairs} weight[s] * longest[s,i])) - 7);

var resident{active}, binary;                 # 1 if the expert is kept in the GPU's memory
var local{places}, binary;                    # 1 if the expert lies on the DIMM
var striped{several}, binary;                 # 1 if a copy of the expert lies on all DIMMs
var way{pairs, ways}, binary;                 # 1 if the expert runs this way; nowhere: on no DIMM
var read{(s,i) in pairs, d in 0..dimms-1: (i,d) in places}, binary;  # a host reads it on the DIMM
var ndp{(s,i) in pairs, d in 0..dimms-1: (i,d) in places}, binary;   # the DIMM's NDP unit runs it
var makespan{scenarios}, >= 0;                # in units

minimize objective_ns: unit * sum{s in scenarios} weight[s] * makespan[s];

# What the variables mean: an expert runs as it lies.
s.t. one_place{i in active diff several}: sum{(i,d) in places} local[i,d] <= 1;
s.t. hit_if_resident{(s,i) in pairs}: way[s,i,"hit"] <= resident[i];
s.t. miss_if_not{(s,i) in pairs}: way[s,i,"gpu_striped"] + way[s,i,"gpu_local"] + resident[i] <= 1;
s.t. some_place{i in several}: striped[i] + sum{(i,d) in places} local[i,d] >= 1;
s.t. striped_if_there{(s,i) in pairs: i in several}:
    way[s,i,"gpu_striped"] + way[s,i,"cpu_striped"] <= striped[i];
s.t. nowhere{(s,i) in pairs, d in 0..dimms-1: i in several}:
    way[s,i,"ndp_nowhere"] + local[i,d] <= 1;
s.t. striped_if_nowhere{(s,i) in pairs: i not in several}:
    way[s,i,"gpu_striped"] + way[s,i,"cpu_striped"] + way[s,i,"ndp_nowhere"]
    + sum{(i,d) in places} local[i,d] <= 1;
s.t. local_reads{(s,i) in pairs}:
    way[s,i,"gpu_local"] + way[s,i,"cpu_local"] = sum{(i,d) in places} read[s,i,d];
s.t. where_it_lies{(s,i) in pairs, d in 0..dimms-1: (i,d) in places}:
    read[s,i,d] + ndp[s,i,d] <= local[i,d];

# LA-C1: each expert runs on one path.
s.t. LA_C1{(s,i) in pairs}: sum{w in ways} way[s,i,w] + sum{(i,d) in places} ndp[s,i,d] = 1;

# LA-C2: only a localized expert runs on NDP.
s.t. LA_C2{(s,i) in pairs}: way[s,i,"ndp_nowhere"] = 0;

# LA-C3: HBM slots.
s.t. LA_C3: sum{i in active} resident[i] <= hbm_slots;

# LA-C4: DIMM slots.
s.t. LA_C4{d in 0..dimms-1}: sum{(i,d) in places} local[i,d] <= dimm_slots;

# LA-C5: the GPU, Eq. 5.
s.t. LA_C5{s in scenarios}:
    gpu_base_ns / unit
    + sum{(s,i) in pairs, w in {"hit", "gpu_striped", "gpu_local"}}
        cost_ns[s,i,w] / unit * way[s,i,w]
    <= makespan[s];

# LA-C6: the CPU, Eq. 5.
s.t. LA_C6{s in scenarios}:
    sum{(s,i) in pairs, w in {"cpu_striped", "cpu_local"}} cost_ns[s,i,w] / unit * way[s,i,w]
    <= makespan[s];

# LA-C7: each DIMM, Eq. 6.
s.t. LA_C7{s in scenarios, d in 0..dimms-1}:
    sum{(s,i) in pairs} charge_ns / unit
        * (way[s,i,"gpu_striped"] + way[s,i,"cpu_striped"])
    + sum{(s,i) in pairs: (i,d) in places}
        (dram_localized_ns / unit * read[s,i,d] + ndp_ns[s,i] / unit * ndp[s,i,d])
    <= makespan[s];

# LA-C8: each memory channel, full reads.
s.t. LA_C8{s in scenarios, c in channel_set}:
    sum{(s,i) in pairs} dram_striped_ns / unit
        * (way[s,i,"gpu_striped"] + way[s,i,"cpu_striped"])
    + sum{(s,i) in pairs, d in 0..dimms-1: (i,d) in places and channels[d] = c}
        dram_localized_ns / unit * read[s,i,d]
    <= makespan[s];

# LA-C9: PCIe.
s.t. LA_C9{s in scenarios}:
    sum{(s,i) in pairs} (pcie_striped_ns[s,i] / unit * way[s,i,"gpu_striped"]
        + pcie_localized_ns[s,i] / unit * way[s,i,"gpu_local"])
    <= makespan[s];

# LA-C10: copies of an expert.
s.t. LA_C10{i in several}:
    striped[i] + sum{(i,d) in places} local[i,d] <= copies_max_per_expert;

# LA-C11: bytes of each DIMM.
s.t. LA_C11{d in 0..dimms-1: card(several) > 0}:
    sum{i in several} (share_bytes / copies_expert_bytes * striped[i] + local[i,d])
    <= (copies_dimm_bytes - copies_reserved_bytes) / copies_expert_bytes;

solve;

# A striped copy is the first, else that on the lowest DIMM; `used` is the copy that is read.
param lies{i in E, d in 0..dimms-1} :=
    if (exists{(i,e) in places: e = d} local[i,e] > 0.5) then 1 else 0;
param is_striped{i in E} := if (exists{j in several: j = i} striped[j] > 0.5) then 1 else 0;
param first{i in E, d in 0..dimms-1} :=
    if is_striped[i] = 0 and lies[i,d] = 1 and sum{e in 0..d-1} lies[i,e] = 0 then 1 else 0;
param used{s in scenarios, i in E, d in 0..dimms-1} :=
    if (exists{(s,j) in pairs: j = i and (i,d) in places} read[s,i,d] + ndp[s,i,d] > 0.5)
    then 1 else 0;

printf "{""resident"": [" > output;
for {i in E} {
    printf "%s%s", (if i = 0 then "" else ", "),
        (if exists{a in active: a = i} resident[a] > 0.5 then "true" else "false") >> output;
}
printf "], ""dimm"": [" >> output;
for {i in E} {
    printf "%s", (if i = 0 then "" else ", ") >> output;
    printf{0..0: not exists{d in 0..dimms-1} first[i,d] > 0} "null" >> output;
    printf{d in 0..dimms-1: first[i,d] > 0} "%d", d >> output;
}
printf "], ""assignment"": [" >> output;
for {s in scenarios} {
    printf "%s[", (if s = 0 then "" else ", ") >> output;
    for {i in E} {
        printf "%s", (if i = 0 then "" else ", ") >> output;
        printf{0..0: tokens[s,i] = 0} "null" >> output;
        for {0..0: tokens[s,i] > 0} {
            printf "%s",
                (if way[s,i,"hit"] + way[s,i,"gpu_striped"] + way[s,i,"gpu_local"] > 0.5
                 then """gpu"""
                 else if way[s,i,"cpu_striped"] + way[s,i,"cpu_local"] > 0.5 then """cpu"""
                 else if way[s,i,"ndp_nowhere"] + sum{(i,d) in places} ndp[s,i,d] > 0.5
                 then """ndp""" else "null") >> output;
        }
    }
    printf "]" >> output;
}
printf "]" >> output;
for {0..0: card(several) > 0} {
    printf ", ""copies"": [" >> output;
    for {i in E} {
        printf "%s[", (if i = 0 then "" else ", ") >> output;
        printf{d in 0..dimms-1: lies[i,d] > first[i,d]} "%s%d",
            (if sum{e in 0..d-1} (lies[i,e] - first[i,e]) > 0 then ", " else ""), d >> output;
        printf "]" >> output;
    }
    printf "], ""source"": [" >> output;
    for {s in scenarios} {
        printf "%s[", (if s = 0 then "" else ", ") >> output;
        for {i in E} {
            printf "%s", (if i = 0 then "" else ", ") >> output;
            printf{0..0: sum{d in 0..dimms-1} (if used[s,i,d] > first[i,d] then 1 else 0) = 0} "null"
                >> output;
            printf{d in 0..dimms-1: used[s,i,d] > first[i,d]} "%d", d >> output;
        }
        printf "]" >> output;
    }
    printf "]" >> output;
}
printf "}\n" >> output;

end;
