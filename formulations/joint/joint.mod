# joint: residents, widths, caches, deferral and KV cache of a plan, together. See spec.md.
# Usable with plain glpsol: glpsol -m joint.mod -d instance.dat

param layers, integer, >= 1;
param experts, integer, >= 1;               # in each layer
param steps_length, integer, >= 1;
param bits_length, integer, >= 1;
param max_ways, integer, >= 0;              # cache ways of a layer
param max_deferred, integer, >= 0;          # deferred experts of a layer
set contexts;                               # ways to keep the KV cache

set L := 0..layers-1;
set E := 0..experts-1;
set T := 0..steps_length-1;
set J := 0..bits_length-1;                  # widths
set W := 0..max_ways;
set D := 0..max_deferred;
set S := 0..2;                              # runs on: GPU, CPU immediate, CPU deferred

param steps{T, L, E, 0..2}, default -1;     # by step, layer and place: expert, tokens, loss
param bits{J}, integer;
param expert_bytes{J}, >= 0;
param gpu_ns{J, 0..experts * 65536}, default 0;  # by width and tokens
param cpu_ns{J, 0..experts * 65536}, default 0;
param copy_ns{J}, >= 0;                     # copying an expert to the GPU
param shared_ns{L}, >= 0;
param hand_over_ns, >= 0;                   # one way
param kv_bytes{contexts}, >= 0;
param attention_ns{contexts, L}, >= 0;
param step_ns{contexts}, >= 0;
param kv_loss{contexts}, >= 0;
param gpu_bytes, >= 0;
param host_bytes, default -1;               # -1: any
param max_loss, default -1;                 # -1: any
param host_copy, binary;                    # 1 if the host holds the residents as well
param width_loss{L, E, J}, default 0;

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

set active := setof{t in T, l in L, p in E: steps[t,l,p,0] >= 0} (t,l,steps[t,l,p,0]);
set rows := setof{(t,l,e) in active} (t,l);
param place{(t,l,e) in active} := sum{p in E: steps[t,l,p,0] = e} p;
param tokens{(t,l,e) in active} := sum{p in E: steps[t,l,p,0] = e} steps[t,l,p,1];
param late_loss{(t,l,e) in active} := sum{p in E: steps[t,l,p,0] = e} steps[t,l,p,2];
param side_ns{(t,l,e) in active, s in S, j in J} :=
    if s = 0 then gpu_ns[j,tokens[t,l,e]] else cpu_ns[j,tokens[t,l,e]];

# When an expert was used last before a step, and which others since then.
param when{(t,l,e) in active} := t * experts + place[t,l,e];
param last{(t,l,e) in active} := max{u in -1..t-1: u < 0 or (u,l,e) in active}
    (if u < 0 then -1 else when[u,l,e]);
param since{(t,l,e) in active, f in E} := if exists{u in 0..t-1: (u,l,f) in active}
    (f <> e and when[u,l,f] > last[t,l,e]) then 1 else 0;

# Numbers up to 10^6 suit GLPK's absolute tolerances.
param horizon_ns := 1 + steps_length * (max{k in contexts} (step_ns[k] + sum{l in L}
    attention_ns[k,l]) + sum{l in L} (shared_ns[l] + 2 * hand_over_ns))
    + sum{(t,l,e) in active} max{s in S, j in J} side_ns[t,l,e,s,j];
param unit := 10 ^ max(0, ceil(log10(horizon_ns)) - 6);
param far := horizon_ns / unit;
param bytes_unit := max(1, layers * experts * (1 + max_ways) * max{j in J} expert_bytes[j] / 10^6);
param loss_unit := max(1, max_loss / 10^6);

var kap{contexts}, binary;
var resident{L, E}, binary;
var width{L, E, J}, binary;
var held{L, E, J}, binary;                  # resident at this width
var ways{L, W}, binary;
var defers{L, D}, binary;
var room{L}, >= 0;                          # of the layer's cache, in units of bytes
var hit{active}, binary;
var runs{active, S, J}, binary;
var miss{rows}, binary;
var copy{active, J}, binary;
var attention{T, 0..layers}, >= 0, <= far;  # when it starts; the step's end
var cpu_start{T, L}, >= 0, <= far;
var cpu_free{T, 0..layers}, >= 0, <= far;
var total, >= 0;

minimize total_ns: unit * total;

s.t. held_low{l in L, e in E, j in J}: held[l,e,j] >= resident[l,e] + width[l,e,j] - 1;
s.t. held_high{l in L, e in E, j in J}: 2 * held[l,e,j] <= resident[l,e] + width[l,e,j];
s.t. runs_once{(t,l,e) in active, j in J}: sum{s in S} runs[t,l,e,s,j] = width[l,e,j];
s.t. misses{(t,l,e) in active, s in 1..2, j in J}: runs[t,l,e,s,j] <= miss[t,l];
s.t. begins{t in T}: attention[t,0] >= sum{k in contexts} step_ns[k] / unit * kap[k];
s.t. ends: total >= sum{t in T} attention[t,layers];

# Deferred are those on the CPU that are listed last.
s.t. which_late{(t,l,e) in active}:
    sum{(t,l,f) in active, s in 1..2, j in J: place[t,l,f] > place[t,l,e]} runs[t,l,f,s,j]
    <= sum{d in D} d * defers[l,d] - 1 + (experts + 1) * (1 - sum{j in J} runs[t,l,e,2,j]);
s.t. which_now{(t,l,e) in active}:
    sum{(t,l,f) in active, s in 1..2, j in J: place[t,l,f] > place[t,l,e]} runs[t,l,f,s,j]
    >= sum{d in D} d * defers[l,d] - max_deferred * (1 - sum{j in J} runs[t,l,e,1,j]);

s.t. JT_C1_context: sum{k in contexts} kap[k] = 1;
s.t. JT_C1_width{l in L, e in E}: sum{j in J} width[l,e,j] = 1;
s.t. JT_C1_ways{l in L}: sum{w in W} ways[l,w] = 1;
s.t. JT_C1_defers{l in L}: sum{d in D: l < layers - 1 or d = 0} defers[l,d] = 1;
s.t. JT_C1_no_other{l in L}: sum{d in D} defers[l,d] = 1;

s.t. JT_C2: sum{k in contexts} kv_bytes[k] / bytes_unit * kap[k]
    + sum{l in L, e in E, j in J} expert_bytes[j] / bytes_unit * held[l,e,j]
    + sum{l in L} room[l] <= gpu_bytes / bytes_unit;
s.t. JT_C2_room{l in L, w in W, e in E, j in J}:
    room[l] >= w * expert_bytes[j] / bytes_unit
        * (ways[l,w] + width[l,e,j] - resident[l,e] - 1);

s.t. JT_C3{i in {1}: host_bytes >= 0}: sum{l in L, e in E, j in J} expert_bytes[j] / bytes_unit
    * (width[l,e,j] - (1 - host_copy) * held[l,e,j]) <= host_bytes / bytes_unit;

s.t. JT_C4{i in {1}: max_loss >= 0}: sum{k in contexts} kv_loss[k] / loss_unit * kap[k]
    + sum{l in L, e in E, j in J} width_loss[l,e,j] / loss_unit * width[l,e,j]
    + sum{(t,l,e) in active, j in J} late_loss[t,l,e] / loss_unit * runs[t,l,e,2,j]
    <= max_loss / loss_unit;

s.t. JT_C5{(t,l,e) in active}: sum{j in J} runs[t,l,e,0,j] <= resident[l,e] + hit[t,l,e];
s.t. JT_C5_never{(t,l,e) in active: last[t,l,e] < 0}: hit[t,l,e] = 0;
s.t. JT_C5_cache{(t,l,e) in active: last[t,l,e] >= 0}:
    sum{f in E: since[t,l,e,f] = 1} (1 - resident[l,f])
    <= sum{w in W} w * ways[l,w] - 1 + (experts + 1) * (1 - hit[t,l,e]);
s.t. JT_C5_copy{(t,l,e) in active: host_copy = 0}:
    sum{s in 1..2, j in J} runs[t,l,e,s,j] <= 1 - resident[l,e];

s.t. JT_C6{t in T, l in L}: attention[t,l+1] >= attention[t,l] + shared_ns[l] / unit
    + sum{k in contexts} attention_ns[k,l] / unit * kap[k]
    + sum{(t,l,e) in active, j in J} side_ns[t,l,e,0,j] / unit * runs[t,l,e,0,j];

s.t. JT_C7_there{(t,l) in rows}: cpu_start[t,l] >= attention[t,l] + hand_over_ns / unit
    + sum{k in contexts} attention_ns[k,l] / unit * kap[k] - 2 * far * (1 - miss[t,l]);
s.t. JT_C7_back{(t,l) in rows}: attention[t,l+1] >= cpu_start[t,l] + hand_over_ns / unit
    + sum{(t,l,e) in active, j in J} side_ns[t,l,e,1,j] / unit * runs[t,l,e,1,j]
    - 2 * far * (1 - miss[t,l]);

s.t. JT_C8{(t,l,e) in active}: attention[t,min(l+2,layers)] >= cpu_free[t,l+1]
    + hand_over_ns / unit - 2 * far * (1 - sum{j in J} runs[t,l,e,2,j]);

s.t. JT_C7_order{t in T, l in L}: cpu_start[t,l] >= cpu_free[t,l];
s.t. JT_C7_work{t in T, l in L}: cpu_free[t,l+1] >= cpu_start[t,l]
    + sum{(t,l,e) in active, s in 1..2, j in J} side_ns[t,l,e,s,j] / unit * runs[t,l,e,s,j];

s.t. JT_C9: total >= sum{(t,l,e) in active, j in J} copy_ns[j] / unit * copy[t,l,e,j];
s.t. JT_C9_copy{(t,l,e) in active, j in J}: copy[t,l,e,j] >= width[l,e,j]
    + sum{w in W: w > 0} ways[l,w] - 1 - resident[l,e] - hit[t,l,e];

solve;

# The experts that the GPU holds in truth, and the CPU runs nevertheless, are kept off it.
param given{l in L} := sum{w in W: ways[l,w] > 0.5} w;
param there{(t,l,e) in active} := if resident[l,e] > 0.5 then 1 else
    if last[t,l,e] >= 0 and sum{f in E: since[t,l,e,f] = 1 and resident[l,f] < 0.5} 1 < given[l]
    then 1 else 0;
set off := setof{(t,l,e) in active: there[t,l,e] = 1 and sum{j in J} runs[t,l,e,0,j] < 0.5} (t,l,e);

printf "{""context"": " > output;
printf "%s", (if sum{k in contexts} kap[k] > 0.5 then
    "" & (min{k in contexts: kap[k] > 0.5} k) else "null") >> output;
printf ", ""resident"": [" >> output;
for {l in L} {
    printf "%s[", (if l = 0 then "" else ", ") >> output;
    for {e in E: resident[l,e] > 0.5} {
        printf "%s%d", (if exists{f in E: f < e} resident[l,f] > 0.5 then ", " else ""), e
            >> output;
    }
    printf "]" >> output;
}
printf "], ""bits"": [" >> output;
for {l in L} {
    printf "%s[", (if l = 0 then "" else ", ") >> output;
    for {e in E} {
        printf "%s%s", (if e = 0 then "" else ", "), (if sum{j in J} width[l,e,j] > 0.5 then
            "" & (min{j in J: width[l,e,j] > 0.5} bits[j]) else "null") >> output;
    }
    printf "]" >> output;
}
printf "], ""ways"": [" >> output;
for {l in L} {
    printf "%s%s", (if l = 0 then "" else ", "), (if sum{w in W} ways[l,w] > 0.5 then
        "" & (min{w in W: ways[l,w] > 0.5} w) else "null") >> output;
}
printf "], ""deferred"": [" >> output;
for {l in L} {
    printf "%s%s", (if l = 0 then "" else ", "), (if sum{d in D} defers[l,d] > 0.5 then
        "" & (min{d in D: defers[l,d] > 0.5} d) else "null") >> output;
}
printf "], ""swapped"": [" >> output;
for {t in T, l in L, e in E: (t,l,e) in off} {
    printf "%s[%d, %d, %d]", (if exists{(u,m,f) in off} ((u * layers + m) * experts + f
        < (t * layers + l) * experts + e) then ", " else ""), t, l, e >> output;
}
printf "]}\n" >> output;

end;
