# relayout: which migrations fit the overlap window (TriMoE 4.3). See spec.md.
# Usable with plain glpsol: glpsol -m relayout.mod -d instance.dat

set experts;                                 # experts, 0, 1, ...
param dimms, integer, >= 1;                  # number of DIMMs, each with an NDP unit
param hbm_free_slots, integer, >= 0;         # how many experts may be prefetched

param dram_striped_ns, >= 0;                 # a host's read of a striped expert, on every DIMM
param dram_localized_ns, >= 0;               # a host's read of a localized expert, on its DIMM
param prefetch_ns, >= 0;                     # PCIe time of a prefetch
param relayout_ns, >= 0;                     # DIMM-Link time: striped to localized, or back
param rebalance_ns, >= 0;                    # DIMM-Link time: from one DIMM to another
param pcie_window_ns, >= 0;                  # time for prefetches
param dimm_link_window_ns, >= 0;             # time for migrations between DIMMs
# Schema 2; defaults mean schema 1.
param relayout_share_ns, >= -1, default -1;  # a layout change on every other DIMM's own link; -1:
                                             # all DIMMs share one link
param channels{0..dimms-1}, integer, default -1;  # memory channel of each DIMM; -1: no channels
param dimm_share{0..1}, integer, default 1;  # part of a striped read that keeps a DIMM busy
param gpu_base_ns, >= 0, default 0;          # the GPU's load before any expert

param expert{experts}, integer, >= 0;        # the expert's number
param tokens{experts}, integer, >= 0;        # predicted tokens
param resident{experts}, binary;             # 1: in the GPU's memory already
param dimm{experts}, integer, default -1;    # DIMM that holds the expert; -1: striped over all
param gpu_hit_ns{experts}, >= 0;             # on the GPU, from the GPU's memory (Eq. 1)
param gpu_miss_striped_ns{experts}, >= 0;    # on the GPU, read from all DIMMs (Eq. 2)
param gpu_miss_localized_ns{experts}, >= 0;  # on the GPU, read from one DIMM (Eq. 2)
param cpu_striped_ns{experts}, >= 0;         # on the CPU, read from all DIMMs (Eq. 3)
param cpu_localized_ns{experts}, >= 0;       # on the CPU, read from one DIMM (Eq. 3)
param ndp_ns{experts}, >= 0;                 # on the NDP unit of the DIMM it lies on (Eq. 4)
# Schema 2: a run on the GPU in two parts; absent (-1): the path is one piece of the GPU's time.
param gpu_calc_ns{experts}, >= -1, default -1;
param pcie_striped_ns{experts}, >= 0, default 0;
param pcie_localized_ns{experts}, >= 0, default 0;

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

set active := setof{i in experts: tokens[i] > 0} i;
set every := 0..dimms-1;
set places := -1..dimms-1;                   # -1: striped

param charge_ns := ceil(dram_striped_ns * dimm_share[0] / dimm_share[1]);
set memory_channels := setof{d in every: channels[d] >= 0} channels[d];
param hit_ns{i in active} := if gpu_calc_ns[i] >= 0 then gpu_calc_ns[i] else gpu_hit_ns[i];
param miss_ns{i in active, p in places} :=
    if gpu_calc_ns[i] >= 0 then gpu_calc_ns[i]
    else if p < 0 then gpu_miss_striped_ns[i] else gpu_miss_localized_ns[i];

param longest{i in active} := max(
    gpu_hit_ns[i], gpu_miss_striped_ns[i], gpu_miss_localized_ns[i], cpu_striped_ns[i],
    cpu_localized_ns[i], ndp_ns[i], dram_striped_ns, dram_localized_ns);
# Microseconds suit GLPK's absolute tolerances; numbers far above 10^7 do not.
param unit := 10 ^ max(3, ceil(log10(1 + gpu_base_ns + sum{i in active} longest[i])) - 7);
param link_unit :=
    10 ^ max(3, ceil(log10(1 + 2 * card(active) * max(relayout_ns, rebalance_ns))) - 7);

# The same rules as the windows, put so that rounding cannot blur them: a number of prefetches, and
# half-way between the largest DIMM-Link total that fits and the smallest that does not.
param prefetches_fit :=
    if prefetch_ns = 0 then card(active) else floor(pcie_window_ns / prefetch_ns);
param relayouts_fit{b in 0..card(active): b * rebalance_ns <= dimm_link_window_ns} :=
    if relayout_ns = 0 then 2 * card(active)
    else min(2 * card(active), floor((dimm_link_window_ns - b * rebalance_ns) / relayout_ns));
param fits := max{b in 0..card(active): b * rebalance_ns <= dimm_link_window_ns}
    (b * rebalance_ns + relayouts_fit[b] * relayout_ns);
param over := min{b in 0..card(active)} (
    if b * rebalance_ns > dimm_link_window_ns then b * rebalance_ns
    else if b * rebalance_ns + (relayouts_fit[b] + 1) * relayout_ns > dimm_link_window_ns
    then b * rebalance_ns + (relayouts_fit[b] + 1) * relayout_ns
    else dimm_link_window_ns + relayout_ns + rebalance_ns + 1);

# With a link per DIMM, half-way between two multiples of the lengths' greatest common divisor.
# Euclid's remainders of two lengths, then of a third; the last that is not 0 divides all.
param remainder{e in 0..100} :=
    if e = 0 then max(relayout_ns, rebalance_ns) else if e = 1 then min(relayout_ns, rebalance_ns)
    else if remainder[e-1] = 0 then 0 else remainder[e-2] mod remainder[e-1];
param common := max(1, min{e in 0..100: e = 0 or remainder[e] > 0} remainder[e]);
param again{e in 0..100} :=
    if e = 0 then common else if e = 1 then max(0, relayout_share_ns)
    else if again[e-1] = 0 then 0 else again[e-2] mod again[e-1];
param step := min{e in 0..100: again[e] > 0} again[e];

# Runs. On the GPU from its memory (prefetched for that, unless resident), or in a domain while the
# host copy lies on a DIMM, or on all (-1).
var hit{active}, binary;
var gpu{i in active, places}, integer, >= 0, <= 1 - resident[i];  # a miss; a resident has none
var cpu{active, places}, binary;
var ndp{active, places}, binary;
# Migrations of the host copy; none that changes nothing.
var stripe{i in active}, integer, >= 0, <= if dimm[i] < 0 then 0 else 1;
var localize{i in active, d in every}, integer, >= 0, <= if d = dimm[i] then 0 else 1;
var rebalance{i in active, d in every}, integer, >= 0, <= if d = dimm[i] then 0 else 1;
var makespan, >= 0;                          # in units

minimize makespan_ns: unit * makespan;

# What the words mean, no rule of the problem: an expert runs where the migrations bring it.
s.t. brought{i in active, d in every: d <> dimm[i]}:
    gpu[i,d] + cpu[i,d] + ndp[i,d] <= localize[i,d] + rebalance[i,d];

s.t. striped{i in active: dimm[i] >= 0}: gpu[i,-1] + cpu[i,-1] + ndp[i,-1] <= stripe[i];

s.t. not_striped{i in active: dimm[i] >= 0}:
    gpu[i,dimm[i]] + cpu[i,dimm[i]] + ndp[i,dimm[i]] <= 1 - stripe[i];

s.t. one_place{i in active}:
    sum{p in places: p = -1 or p = dimm[i]} (gpu[i,p] + cpu[i,p] + ndp[i,p])
    + sum{d in every} (localize[i,d] + rebalance[i,d]) <= 1;

# RE-C1
s.t. RE_C1{i in active}: hit[i] + sum{p in places} (gpu[i,p] + cpu[i,p] + ndp[i,p]) = 1;

# RE-C2
s.t. RE_C2{i in active}: ndp[i,-1] = 0;

# RE-C3
s.t. RE_C3{i in active}:
    (1 - resident[i]) * hit[i] + stripe[i] + sum{d in every} (localize[i,d] + rebalance[i,d])
    <= 1;

# RE-C4
s.t. RE_C4_localize{i in active}:
    sum{d in every} localize[i,d] <= if dimm[i] < 0 then 1 else stripe[i];

s.t. RE_C4_rebalance{i in active}:
    sum{d in every} rebalance[i,d] <= if dimm[i] < 0 then 0 else 1 - stripe[i];

# RE-C5
s.t. RE_C5: sum{i in active} (1 - resident[i]) * hit[i] <= hbm_free_slots;

# RE-C6
s.t. RE_C6: sum{i in active} (1 - resident[i]) * hit[i] <= prefetches_fit;

# RE-C7
s.t. RE_C7{o in 0..0: relayout_share_ns < 0}:
    relayout_ns / link_unit * sum{i in active} (stripe[i] + sum{d in every} localize[i,d])
    + rebalance_ns / link_unit * sum{i in active, d in every} rebalance[i,d]
    <= (fits + over) / 2 / link_unit;

# RE-C8
s.t. RE_C8:
    gpu_base_ns / unit + sum{i in active} hit_ns[i] / unit * hit[i]
    + sum{i in active, p in places} miss_ns[i,p] / unit * gpu[i,p]
    <= makespan;

# RE-C9
s.t. RE_C9:
    sum{i in active, p in places}
        (if p < 0 then cpu_striped_ns[i] else cpu_localized_ns[i]) / unit * cpu[i,p]
    <= makespan;

# RE-C10
s.t. RE_C10{d in every}:
    charge_ns / unit * sum{i in active} (gpu[i,-1] + cpu[i,-1])
    + dram_localized_ns / unit * sum{i in active} (gpu[i,d] + cpu[i,d])
    + sum{i in active} ndp_ns[i] / unit * ndp[i,d]
    <= makespan;

# RE-C11
s.t. RE_C11{c in memory_channels}:
    dram_striped_ns / unit * sum{i in active} (gpu[i,-1] + cpu[i,-1])
    + dram_localized_ns / unit
        * sum{i in active, d in every: channels[d] = c} (gpu[i,d] + cpu[i,d])
    <= makespan;

# RE-C12
s.t. RE_C12:
    sum{i in active, p in places}
        (if p < 0 then pcie_striped_ns[i] else pcie_localized_ns[i]) / unit * gpu[i,p]
    <= makespan;

# RE-C13
s.t. RE_C13{d in every: relayout_share_ns >= 0}:
    relayout_share_ns / link_unit
        * sum{i in active} (stripe[i] + sum{e in every} localize[i,e])
    + (relayout_ns - relayout_share_ns) / link_unit
        * (sum{i in active} localize[i,d] + sum{i in active: dimm[i] = d} stripe[i])
    + rebalance_ns / link_unit
        * (sum{i in active} rebalance[i,d]
           + sum{i in active, e in every: dimm[i] = d} rebalance[i,e])
    <= (floor(dimm_link_window_ns / step) + 0.5) * step / link_unit;

solve;

# An expert that is striped and then localized, which only happens without RE-C3, is listed so.
param prefetched := sum{i in active: resident[i] = 0} hit[i];
param moved{i in active} := stripe[i] + sum{d in every} (localize[i,d] + rebalance[i,d]);
printf "{""migrations"": [" > output;
for {i in active: resident[i] = 0 and hit[i] > 0.5} {
    printf "%s{""expert"": %d, ""kind"": ""prefetch""}",
        (if sum{j in active: j < i and resident[j] = 0} hit[j] > 0.5 then ", " else ""),
        expert[i] >> output;
}
for {i in active: moved[i] > 0.5} {
    printf "%s", (if prefetched + sum{j in active: j < i} moved[j] > 0.5 then ", " else "")
        >> output;
    printf{o in 0..0: stripe[i] > 0.5} "{""expert"": %d, ""kind"": ""stripe""}%s",
        expert[i], (if moved[i] > 1.5 then ", " else "") >> output;
    printf{d in every: localize[i,d] > 0.5}
        "{""expert"": %d, ""kind"": ""localize"", ""dimm"": %d}", expert[i], d >> output;
    printf{d in every: rebalance[i,d] > 0.5}
        "{""expert"": %d, ""kind"": ""rebalance"", ""dimm"": %d}", expert[i], d >> output;
}
printf "], ""assignment"": [" >> output;
for {i in experts} {
    printf "%s", (if i = 0 then "" else ", ") >> output;
    printf{o in 0..0: tokens[i] = 0} "null" >> output;
    printf{j in active: j = i} "%s", (
        if hit[j] + sum{p in places} gpu[j,p] > 0.5 then """gpu"""
        else if sum{p in places} cpu[j,p] > 0.5 then """cpu"""
        else if sum{p in places} ndp[j,p] > 0.5 then """ndp""" else "null") >> output;
}
printf "]}\n" >> output;

end;
