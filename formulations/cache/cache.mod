# cache: how many GPU cache ways each layer gets (CPU-GPU collaborative III-B). See spec.md.
# Usable with plain glpsol: glpsol -m cache.mod -d instance.dat
# Hits and misses are computed here, from the accesses; it is meant for short traces.

param layers, integer, >= 1;
param experts, integer, >= 1;               # in each layer
param slots, integer, >= 0;                 # experts that fit on the GPU, over all layers
param accesses_length, integer, >= 1;       # tokens in the trace

set L := 0..layers-1;
set E := 0..experts-1;
set counts := 0..experts;                   # ways that a layer may have
set tokens := 0..accesses_length-1;

param gpu_ns, >= 0;                         # an expert on the GPU that has it
param cpu_ns, >= 0;                         # an expert on the CPU
param activation_ns, >= 0;                  # handing over activations, if the CPU computes
param fetch_ns, >= 0;                       # copying an expert to the GPU
param other_ns, >= 0;                       # a layer besides its experts
param accesses{tokens, L, E}, default -1;   # by token, layer and place: the expert; -1: no more

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

# Place of an expert in a token's list, from 1 on; 0 if it is not used.
param place{t in tokens, l in L, e in E} := sum{i in E: accesses[t,l,i] = e} (i + 1);

# When an expert was last used before a token, as a number that grows with time; 0: never.
param last{t in tokens, l in L, e in E} := if t = 0 then 0
    else if place[t-1,l,e] > 0 then experts * (t - 1) + place[t-1,l,e]
    else last[t-1,l,e];

# Stack distance of an access: how many experts were used more recently.
param distance{t in tokens, l in L, e in E: place[t,l,e] > 0} :=
    if last[t,l,e] = 0 then experts else sum{f in E: last[t,l,f] > last[t,l,e]} 1;

param used{t in tokens, l in L} := sum{e in E: place[t,l,e] > 0} 1;
param missing{t in tokens, l in L, w in counts} :=
    sum{e in E: place[t,l,e] > 0} (if distance[t,l,e] >= w then 1 else 0);
param layer_ns{l in L, w in counts} := sum{t in tokens} (other_ns + max(
    gpu_ns * (used[t,l] - missing[t,l,w]),
    if missing[t,l,w] > 0 then activation_ns + cpu_ns * missing[t,l,w] else 0));
param fetches{l in L, w in counts} := if w = 0 then 0 else sum{t in tokens} missing[t,l,w];

# Numbers up to 10^6 suit GLPK's absolute tolerances.
param longest_ns := max(1, sum{l in L} max{w in counts} layer_ns[l,w],
    fetch_ns * sum{l in L} max{w in counts} fetches[l,w]);
param unit := 10 ^ max(0, ceil(log10(longest_ns)) - 6);

var gets{L, counts}, binary;                # 1 if the layer has so many ways
var trace, >= 0;                            # in units

minimize trace_ns: unit * trace;

s.t. CA_C1{l in L}: sum{w in counts} gets[l,w] = 1;

s.t. CA_C2: sum{l in L, w in counts} w * gets[l,w] <= slots;

s.t. CA_C3: sum{l in L, w in counts} layer_ns[l,w] / unit * gets[l,w] <= trace;

s.t. CA_C4: sum{l in L, w in counts} fetch_ns * fetches[l,w] / unit * gets[l,w] <= trace;

solve;

printf "{""ways"": [" > output;
for {l in L} {
    printf "%s", (if l = 0 then "" else ", ") >> output;
    for {{0}: sum{w in counts} gets[l,w] < 0.5} { printf "null" >> output; }
    for {w in counts: gets[l,w] > 0.5 and sum{v in counts: v < w} gets[l,v] < 0.5} {
        printf "%d", w >> output;
    }
}
printf "]}\n" >> output;

end;
