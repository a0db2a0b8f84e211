# placement: which experts live on the GPU (KTransformers, Fiddler, edge GPU-NDP, CXL). See spec.md.
# Usable with plain glpsol: glpsol -m placement.mod -d instance.dat

param layers, integer, >= 1;
param experts, integer, >= 1;               # in each layer
param gpu_slots, integer, >= 0;             # the GPU's room for experts, over all layers
param steps_length, integer, >= 1;
param gpu_expert_ns_length, integer, >= 2;
param offload_expert_ns_length, integer, >= 2;

set L := 0..layers-1;
set E := 0..experts-1;
set T := 0..steps_length-1;

param gpu_expert_ns{0..gpu_expert_ns_length-1}, >= 0;          # by tokens
param offload_expert_ns{0..offload_expert_ns_length-1}, >= 0;  # by tokens
param layer_offload_fixed_ns, >= 0;         # of a layer that offloads anything in a step
param steps{T, L, E, 0..1}, default -1;     # by step, layer and place: expert and tokens; -1: none
param restriction, symbolic, default "none";
param fill, binary, default 0;              # 1 if every slot must be used
param expert_slots{L, E}, integer, default 1;
param host_slots, integer, default -1;      # the host's room for experts; -1: any
param host_copy, binary, default 1;         # 1 if the host holds the GPU's experts as well
param dispatch, symbolic, default "resident";   # "free" if others may compute what is on the GPU
param expert_width{L, E}, integer, default 0;   # 0: the tables above, w: the w-th further ones
param width_gpu_ns_length, integer, default 0;
set W := 0..width_gpu_ns_length-1;
param width_gpu_ns{W, 0..gpu_expert_ns_length-1}, >= 0;
param width_offload_ns{W, 0..offload_expert_ns_length-1}, >= 0;

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

set active := setof{t in T, l in L, k in E: steps[t,l,k,0] >= 0} (t,l,steps[t,l,k,0]);
set pairs := setof{(t,l,e) in active} (t,l);
param tokens{(t,l,e) in active} := sum{k in E: steps[t,l,k,0] = e} steps[t,l,k,1];

# Beyond the end of a table the last slope continues.
param gpu_last := gpu_expert_ns_length - 1;
param offload_last := offload_expert_ns_length - 1;
param gpu_table{w in 0..width_gpu_ns_length, n in 0..gpu_last} :=
    if w = 0 then gpu_expert_ns[n] else width_gpu_ns[w-1,n];
param offload_table{w in 0..width_gpu_ns_length, n in 0..offload_last} :=
    if w = 0 then offload_expert_ns[n] else width_offload_ns[w-1,n];
param gpu_ns{(t,l,e) in active} := gpu_table[expert_width[l,e], min(tokens[t,l,e], gpu_last)]
    + max(0, tokens[t,l,e] - gpu_last)
    * (gpu_table[expert_width[l,e], gpu_last] - gpu_table[expert_width[l,e], gpu_last-1]);
param offload_ns{(t,l,e) in active} :=
    offload_table[expert_width[l,e], min(tokens[t,l,e], offload_last)]
    + max(0, tokens[t,l,e] - offload_last)
    * (offload_table[expert_width[l,e], offload_last]
       - offload_table[expert_width[l,e], offload_last-1]);

# Numbers up to 10^6 suit GLPK's absolute tolerances.
param longest_ns := 1 + sum{(t,l) in pairs} layer_offload_fixed_ns
    + sum{(t,l,e) in active} max(gpu_ns[t,l,e], offload_ns[t,l,e]);
param unit := 10 ^ max(0, ceil(log10(longest_ns)) - 6);

var on{L, E}, binary;                       # 1 if the expert lives on the GPU
var free_run{(t,l,e) in active: dispatch = "free"}, binary; # 1 if the GPU computes the expert
var charged{pairs}, >= 0, <= 1;             # 1 if the layer pays the fixed charge in the step
var time{pairs}, >= 0;                      # of the layer in the step, in units
var copied, >= 0;                           # slots of the experts on the GPU with a host copy

minimize total_ns: unit * sum{(t,l) in pairs} time[t,l];

s.t. PL_C1: sum{l in L, e in E} expert_slots[l,e] * on[l,e] <= gpu_slots;

s.t. PL_C2{0..0: fill = 1}: sum{l in L, e in E} expert_slots[l,e] * on[l,e] >= gpu_slots;

s.t. PL_C3_copied: copied = host_copy * sum{l in L, e in E} expert_slots[l,e] * on[l,e];
s.t. PL_C3{0..0: host_slots >= 0}:
    sum{l in L, e in E} expert_slots[l,e] * (1 - on[l,e]) + copied <= host_slots;

s.t. PL_C4{l in L, e in E: restriction = "whole-layers" and e > 0}: on[l,e] = on[l,0];

s.t. PL_C5{l in L: restriction = "equal-counts" and l > 0}:
    sum{e in E} on[l,e] = sum{e in E} on[0,e];

s.t. PL_C6{(t,l) in pairs}: sum{(t,l,e) in active} gpu_ns[t,l,e] / unit
    * (if dispatch = "free" then free_run[t,l,e] else on[l,e]) <= time[t,l];

s.t. PL_C7{(t,l) in pairs}: sum{(t,l,e) in active} offload_ns[t,l,e] / unit
    * (1 - (if dispatch = "free" then free_run[t,l,e] else on[l,e]))
    + layer_offload_fixed_ns / unit * charged[t,l] <= time[t,l];

s.t. PL_C8{(t,l,e) in active}:
    charged[t,l] >= 1 - (if dispatch = "free" then free_run[t,l,e] else on[l,e]);

s.t. PL_C9{(t,l,e) in active: dispatch = "free"}: free_run[t,l,e] <= on[l,e];

solve;

printf "{""gpu"": [" > output;
for {l in L} {
    printf "%s[", (if l = 0 then "" else ", ") >> output;
    for {e in E: on[l,e] > 0.5} {
        printf "%s%d", (if exists{f in E: f < e} on[l,f] > 0.5 then ", " else ""), e >> output;
    }
    printf "]" >> output;
}
printf "]" >> output;
for {0..0: dispatch = "free"} {
    printf ", ""computed_on_gpu"": [" >> output;
    for {t in T} {
        printf "%s[", (if t = 0 then "" else ", ") >> output;
        for {l in L} {
            printf "%s[", (if l = 0 then "" else ", ") >> output;
            for {e in E: (t,l,e) in active} {
                for {0..0: free_run[t,l,e] > 0.5} {
                    printf "%s%d", (if exists{f in E: f < e and (t,l,f) in active}
                        free_run[t,l,f] > 0.5 then ", " else ""), e >> output;
                }
            }
            printf "]" >> output;
        }
        printf "]" >> output;
    }
    printf "]" >> output;
}
printf "}\n" >> output;

end;
