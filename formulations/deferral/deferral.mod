# deferral: how many experts each layer defers (KTransformers 4.2). See spec.md.
# Usable with plain glpsol: glpsol -m deferral.mod -d instance.dat

param layers, integer, >= 1;
param top_k, integer, >= 1;                 # experts that a layer runs on the CPU
param min_immediate, integer, >= 0;         # how many of them must be immediate

set L := 0..layers-1;
set counts := 0..top_k-min_immediate;       # how many a layer may defer

param attention_ns{L}, >= 0;                # attention, on the GPU
param shared_ns{L}, >= 0;                   # shared experts, on the GPU
param sync_ns{L}, >= 0;                     # handing activations over, one way
param expert_cpu_ns{L}, >= 0;               # one routed expert on the CPU
param penalty{counts}, >= 0;                # by deferred count; never falls
param max_total_penalty, default -1;        # -1: no limit

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

# Tasks 4l, 4l+1, 4l+2, 4l+3: attention, shared, immediate and deferred experts of layer l.
set tasks := 0..4*layers-1;
param on_gpu_ns{t in tasks} := if t mod 4 = 0 then attention_ns[t div 4]
    else if t mod 4 = 1 then shared_ns[t div 4] else 0;
param on_cpu_ns{t in tasks, d in counts} := expert_cpu_ns[t div 4]
    * (if t mod 4 = 2 then top_k - d else if t mod 4 = 3 then d else 0);

# (t, u): u waits for t.
set immediate_attention := setof{l in L: l >= 1} (4*l-2, 4*l);
set deferred_attention := setof{l in L: l >= 2} (4*l-5, 4*l);
set attention_shared := setof{l in L} (4*l, 4*l+1);
set shared_attention := setof{l in L: l >= 1} (4*l-3, 4*l);
set attention_experts := setof{l in L, s in 2..3} (4*l, 4*l+s);
set on_gpu := attention_shared union shared_attention;
set waits := immediate_attention union deferred_attention union on_gpu union attention_experts;
param hand_over_ns{(t,u) in waits} := if (t,u) in on_gpu then 0 else sync_ns[t div 4];

# Tasks of the CPU that may take time, in pairs.
set pairs := {t in tasks, u in tasks: t < u and t mod 4 >= 2 and u mod 4 >= 2
    and expert_cpu_ns[t div 4] > 0 and expert_cpu_ns[u div 4] > 0};

param radix := layers * penalty[top_k - min_immediate] + 1;
param horizon_ns := 1 + sum{l in L}
    (attention_ns[l] + shared_ns[l] + 2 * sync_ns[l] + top_k * expert_cpu_ns[l]);
# Numbers up to 10^6 suit GLPK's absolute tolerances.
param unit := 10 ^ max(0, ceil(log10(horizon_ns)) - 6);
param far := horizon_ns / unit;

var defers{L, counts}, binary;              # 1 if the layer defers so many experts
var start{tasks}, >= 0, <= far;             # in units
var makespan, >= 0, <= far;
var before{pairs}, binary;                  # 1 if the first of the two comes first on the CPU

minimize packed:
    unit * radix * makespan + sum{l in L, d in counts} penalty[d] * defers[l,d];

s.t. DE_C1{l in L}:
    sum{d in counts: l < layers - 1 or d = 0} defers[l,d] = 1;
s.t. DE_C1_no_other{l in L}: sum{d in counts} defers[l,d] = 1;

s.t. DE_C2{(t,u) in immediate_attention}:
    start[u] >= start[t] + hand_over_ns[t,u] / unit
        + sum{d in counts} on_cpu_ns[t,d] / unit * defers[t div 4,d];

s.t. DE_C3{(t,u) in deferred_attention}:
    start[u] >= start[t] + hand_over_ns[t,u] / unit
        + sum{d in counts} on_cpu_ns[t,d] / unit * defers[t div 4,d];

s.t. DE_C4{(t,u) in on_gpu}: start[u] >= start[t] + on_gpu_ns[t] / unit;

s.t. DE_C5{(t,u) in attention_experts}:
    start[u] >= start[t] + (on_gpu_ns[t] + hand_over_ns[t,u]) / unit;

# A task without experts takes no time and keeps no place.
s.t. DE_C6{(t,u) in pairs}:
    start[u] >= start[t] + sum{d in counts} on_cpu_ns[t,d] / unit * defers[t div 4,d]
        - far * (1 - before[t,u])
        - far * (1 - sum{d in counts: on_cpu_ns[t,d] > 0} defers[t div 4,d])
        - far * (1 - sum{d in counts: on_cpu_ns[u,d] > 0} defers[u div 4,d]);
s.t. DE_C6_other{(t,u) in pairs}:
    start[t] >= start[u] + sum{d in counts} on_cpu_ns[u,d] / unit * defers[u div 4,d]
        - far * before[t,u]
        - far * (1 - sum{d in counts: on_cpu_ns[t,d] > 0} defers[t div 4,d])
        - far * (1 - sum{d in counts: on_cpu_ns[u,d] > 0} defers[u div 4,d]);

s.t. DE_C7{i in {1}: max_total_penalty >= 0}:
    sum{l in L, d in counts} penalty[d] * defers[l,d] <= max_total_penalty;

s.t. DE_C8{t in tasks}:
    makespan >= start[t] + on_gpu_ns[t] / unit
        + sum{d in counts} on_cpu_ns[t,d] / unit * defers[t div 4,d];

solve;

# The starts found are floats. In whole ns each task starts as early as those waits and that order
# let it which the solution keeps; with no constraint left out these are all.
param near := 1e-4 + 1e-5 * far;
param long_ns{t in tasks} := on_gpu_ns[t]
    + sum{d in counts: defers[t div 4,d] > 0.5} on_cpu_ns[t,d];
set kept := setof{(t,u) in waits:
    start[u] >= start[t] + (long_ns[t] + hand_over_ns[t,u]) / unit - near} (t,u);
set ordered := setof{(t,u) in pairs: long_ns[t] > 0 and long_ns[u] > 0 and before[t,u] > 0.5
        and start[u] >= start[t] + long_ns[t] / unit - near} (t,u)
    union setof{(t,u) in pairs: long_ns[t] > 0 and long_ns[u] > 0 and before[t,u] < 0.5
        and start[t] >= start[u] + long_ns[u] / unit - near} (u,t);
set beginnings := setof{t in tasks} (t,t);      # GLPK has no maximum over nothing
param exact_ns{u in tasks} := max(
    max{(t,v) in kept union beginnings: v = u}
        (if t = v then 0 else exact_ns[t] + long_ns[t] + hand_over_ns[t,v]),
    max{(t,v) in ordered union beginnings: v = u}
        (if t = v then 0 else exact_ns[t] + long_ns[t]));

printf "{""deferred"": [" > output;
for {l in L} {
    printf "%s", (if l = 0 then "" else ", ") >> output;
    for {{0}: sum{d in counts} defers[l,d] < 0.5} { printf "null" >> output; }
    for {d in counts: defers[l,d] > 0.5 and sum{e in counts: e < d} defers[l,e] < 0.5} {
        printf "%d", d >> output;
    }
}
printf "], ""start_ns"": {" >> output;
for {s in 0..3} {
    printf "%s", (if s = 0 then """attention"": [" else if s = 1 then "], ""shared"": ["
        else if s = 2 then "], ""immediate"": [" else "], ""deferred"": [") >> output;
    for {l in L} {
        printf "%s%.0f", (if l = 0 then "" else ", "), exact_ns[4*l+s] >> output;
    }
}
printf "]}}\n" >> output;

end;
