# split: where each layer's attention and routed experts lie, on several GPUs and nodes. See spec.md.
# Usable with plain glpsol: glpsol -m split.mod -d instance.dat

set devices;
set layers;

param source, integer, >= 0;                    # where a token comes from and goes back to
param capacity{devices}, >= 0;                  # bytes
param buffer{devices}, >= 0;                    # bytes, taken as soon as any part lies there
param order_length, integer, default 0;         # 0: attention may lie anywhere
param order{0..order_length-1}, integer;
param hop_ns{devices, devices}, >= 0;
param prompt_hop_ns{devices, devices}, default 0;
param decode_weight, >= 0;
param prompt_weight, >= 0;
param attention_ns{layers, devices}, default -1;            # -1: cannot run there; everywhere: none
param experts_ns{layers, devices}, default -1;              # -1 everywhere: no experts
param prompt_attention_ns{layers, devices}, default 0;
param prompt_experts_ns{layers, devices}, default 0;
param attention_bytes{layers}, >= 0;
param experts_bytes{layers}, >= 0;

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

set with_experts := setof{l in layers: exists{d in devices} experts_ns[l,d] >= 0} l;
set with_attention := setof{l in layers: exists{d in devices} attention_ns[l,d] >= 0} l;
set without := layers diff with_attention;      # a further tensor of the experts before

# Weighted times; numbers up to 10^6 suit GLPK's absolute tolerances.
param token_attention{l in layers, d in devices} := decode_weight * max(0, attention_ns[l,d]);
param token_experts{l in layers, d in devices} := decode_weight * max(0, experts_ns[l,d]);
param ubatch_attention{l in layers, d in devices} := prompt_weight * prompt_attention_ns[l,d];
param ubatch_experts{l in layers, d in devices} := prompt_weight * prompt_experts_ns[l,d];
param longest := 1 + sum{l in layers} (
    max{d in devices} (token_attention[l,d] + ubatch_attention[l,d])
    + max{d in devices} (token_experts[l,d] + ubatch_experts[l,d]))
    + (2 * card(layers) + 1) * max{i in devices, j in devices}
        (decode_weight * hop_ns[i,j] + prompt_weight * prompt_hop_ns[i,j]);
param unit := 10 ^ max(0, ceil(log10(longest)) - 6);
param largest := 1 + max{d in devices} max(capacity[d], buffer[d]);
param bytes := 10 ^ max(0, ceil(log10(largest)) - 9);

param last := max{l in layers} l;

var attention{layers, devices}, binary;         # 1 where a layer's attention lies
var experts{layers, devices}, binary;           # 1 where its routed experts lie
var taken{devices}, binary;                     # 1 if any part lies there
var out{layers, devices, devices}, >= 0, <= 1;  # from attention to experts
var on{layers, devices, devices}, >= 0, <= 1;   # from a layer's end to the next one's attention
var token, >= 0;                                # weighted, in units
var prompt, >= 0;

minimize weighted_ns: unit * token + unit * prompt;

# What the hops' variables mean; a layer without experts ends where its attention is.
s.t. out_leaves{l in with_experts inter with_attention, i in devices}:
    sum{j in devices} out[l,i,j] = attention[l,i];
s.t. out_enters{l in with_experts inter with_attention, j in devices}:
    sum{i in devices} out[l,i,j] = experts[l,j];
s.t. on_leaves{l in layers, i in devices: l < last}:
    sum{j in devices} on[l,i,j]
    = if exists{d in devices} experts_ns[l,d] >= 0 then experts[l,i] else attention[l,i];
s.t. on_enters{l in layers, j in devices: l < last}:
    sum{i in devices} on[l,i,j] = if l + 1 in with_attention then attention[l+1,j] else experts[l+1,j];
s.t. no_attention{l in without, d in devices}: attention[l,d] = 0;
s.t. no_experts{l in layers, d in devices: not exists{g in devices} experts_ns[l,g] >= 0}:
    experts[l,d] = 0;

# SP-C1: one device that can run it.
s.t. SP_C1{l in with_attention}: sum{d in devices: attention_ns[l,d] >= 0} attention[l,d] = 1;
s.t. SP_C1_no_other{l in with_attention}: sum{d in devices} attention[l,d] = 1;
s.t. SP_C1_experts{l in with_experts}: sum{d in devices: experts_ns[l,d] >= 0} experts[l,d] = 1;
s.t. SP_C1_experts_no_other{l in with_experts}: sum{d in devices} experts[l,d] = 1;

# SP-C2: memory; SP-C3: when the buffer is needed.
s.t. SP_C2{d in devices}:
    sum{l in layers} attention_bytes[l] / bytes * attention[l,d]
    + sum{l in with_experts} experts_bytes[l] / bytes * experts[l,d]
    + buffer[d] / bytes * taken[d] <= capacity[d] / bytes;
s.t. SP_C3{l in layers, d in devices}: attention[l,d] <= taken[d];
s.t. SP_C3_experts{l in with_experts, d in devices}: experts[l,d] <= taken[d];

# SP-C4: the order.
s.t. SP_C4{l in with_attention: order_length > 0}:
    sum{p in 0..order_length-1} attention[l,order[p]] = 1;
s.t. SP_C4_never_back{l in with_attention, m in with_attention, p in 0..order_length-2: l < m
        and not exists{n in with_attention} (l < n and n < m)}:
    sum{k in 0..p} attention[m,order[k]] <= sum{k in 0..p} attention[l,order[k]];

# SP-C5 and SP-C6: the times.
s.t. SP_C5: sum{l in layers, d in devices} token_attention[l,d] / unit * attention[l,d]
    + sum{l in with_experts, d in devices} token_experts[l,d] / unit * experts[l,d]
    + sum{d in devices} decode_weight * hop_ns[source,d] / unit * attention[0,d]
    + sum{d in devices, l in layers: l = last} decode_weight * hop_ns[d,source] / unit
        * (if exists{g in devices} experts_ns[l,g] >= 0 then experts[l,d] else attention[l,d])
    + sum{l in with_experts, i in devices, j in devices} decode_weight * hop_ns[i,j] / unit
        * out[l,i,j]
    + sum{l in layers, i in devices, j in devices: l < last} decode_weight * hop_ns[i,j] / unit
        * on[l,i,j]
    <= token;
s.t. SP_C6: sum{l in layers, d in devices} ubatch_attention[l,d] / unit * attention[l,d]
    + sum{l in with_experts, d in devices} ubatch_experts[l,d] / unit * experts[l,d]
    + sum{d in devices} prompt_weight * prompt_hop_ns[source,d] / unit * attention[0,d]
    + sum{d in devices, l in layers: l = last} prompt_weight * prompt_hop_ns[d,source] / unit
        * (if exists{g in devices} experts_ns[l,g] >= 0 then experts[l,d] else attention[l,d])
    + sum{l in with_experts, i in devices, j in devices} prompt_weight * prompt_hop_ns[i,j] / unit
        * out[l,i,j]
    + sum{l in layers, i in devices, j in devices: l < last}
        prompt_weight * prompt_hop_ns[i,j] / unit * on[l,i,j]
    <= prompt;

solve;

printf "{""attention"": [" > output;
for {l in layers} {
    printf "%s", (if l = 0 then "" else ", ") >> output;
    for {{0}: l in without} { printf "-1" >> output; }
    for {d in devices: attention[l,d] > 0.5} { printf "%d", d >> output; }
}
printf "], ""experts"": [" >> output;
for {l in layers} {
    printf "%s", (if l = 0 then "" else ", ") >> output;
    for {{0}: not exists{g in devices} experts_ns[l,g] >= 0} { printf "-1" >> output; }
    for {d in devices: experts[l,d] > 0.5} { printf "%d", d >> output; }
}
printf "]}\n" >> output;

end;
