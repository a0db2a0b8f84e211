# replication: copies of experts over devices. See spec.md.
# Usable with plain glpsol: glpsol -m replication.mod -d instance.dat

set windows;                              # 0, 1, ...
param devices, integer, >= 1;             # devices of expert parallelism
param slots, integer, >= 1;               # copies that a device has room for
param nodes, integer, default 1;          # nodes of equally many consecutive devices
param split, symbolic, default "even";    # "even" or "free"
param max_copies, integer, >= 1;          # most copies of an expert
param weight{windows}, integer, >= 1;
param loads{windows, 0..4095}, default -1;  # tokens of each expert; -1: there is none
param experts := card({e in 0..4095: loads[0,e] >= 0});
set E := 0..experts-1;
set D := 0..devices-1;
param hottest := min{e in E: loads[0,e] = max{f in E} loads[0,f]} e;
param groups, integer, default experts;   # groups of consecutive experts that stay within a node
param current_length, default 0;          # 0: where copies lie now does not matter
param current{E, 0..devices-1}, default -1;  # devices of each expert's copies now
param move_cost, default 0;               # of a copy that is not there now, in units
param work, symbolic, default "tokens";   # "tokens" or "kernel"
param read_ns, default 0;                 # kernel: of an expert that has tokens there
param token_ns, default 0;                # kernel: of each token
param pass_ns, default 0;                 # kernel: of each token besides
param slot_cost, default 0;               # kernel: of each copy beyond one per expert
param links_length, default 0;            # 0: there are no links
param links{0..devices-1, 0..devices-1}, default 0;  # ns of a token from one device to another
param even, symbolic := if split = "even" and work = "kernel" then "kernel" else split;
param shared, symbolic := if split = "free" and work = "kernel" then "kernel" else "no";

set K := 1..min(max_copies, devices);     # numbers of copies
# Units per token: the least common multiple of 1..max_copies, one number after the other.
param units{n in 1..(if work = "kernel" then 1 else max_copies)} := if n = 1 then 1
    else units[n-1] * min{j in 1..n: (units[n-1] * j) mod n = 0} j;
param unit := if work = "kernel" then 1 else units[max_copies];
# Of a token besides: nothing hides it, and it comes from all devices alike.
param way{g in D} := pass_ns + sum{h in D} links[h,g] / devices;
param all_of{w in windows} := if work = "kernel"
    then read_ns * 2 * experts + (token_ns + max{g in D} way[g]) * sum{e in E} loads[w,e]
    else sum{e in E} loads[w,e];
# Objectives far above 10^7 do not suit GLPK's absolute tolerances.
param scale := unit * 10 ^ max(0, ceil(log10(1 + sum{w in windows} weight[w] * all_of[w])) - 7);
param group_of{e in E} := floor(e * groups / experts);
param node_of{g in D} := floor(g * nodes / devices);

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

var count{E, K}, binary;                  # 1 if the expert has so many copies
var lies{E, D, K}, integer, >= 0, <= 2;   # how many of these are on the device
var home{0..groups-1, 0..nodes-1}, binary;  # 1 if the group has its copies in the node
var part{w in windows, e in E, g in D: even = "free" and shared = "no" and loads[w,e] > 0}, >= 0;
# In units, for a free split of tokens and for the ways of links: rounded up.
set rounded := {w in windows: (split = "free" and work = "tokens") or links_length > 0};
var whole_peak{rounded}, integer, >= 0;
var peak{windows}, >= 0;                  # in tokens or ns, over scale / unit
var moves, >= 0;
var slots_paid, >= 0;
# Kernel, even split: whether the device has the r-th of k copies, by the devices' numbers.
set places := {e in E, g in D, k in K, r in 1..card(K): r <= k and even = "kernel"};
var at{places}, binary;
# Kernel, free split: an expert's tokens on a device, and whether there are any.
set shares := {w in windows, e in E, g in D: shared = "kernel"};
var tokens{(w,e,g) in shares}, integer, >= 0, <= loads[w,e];
var reads{shares}, binary;

minimize peak_load_units: scale * (sum{w in windows} weight[w] * peak[w] + moves + slots_paid);

# What the variables mean; a free split's peak is rounded up to units.
s.t. of_count{e in E, k in K}: sum{g in D} lies[e,g,k] = k * count[e,k];
s.t. rounded_up{w in rounded}: peak[w] = unit / scale * (whole_peak[w] / unit);
s.t. there{e in E, g in D, k in K: even = "kernel"}: sum{r in 1..k} at[e,g,k,r] = lies[e,g,k];
s.t. each{e in E, k in K, r in 1..k: even = "kernel"}: sum{g in D} at[e,g,k,r] = count[e,k];
s.t. ordered{e in E, k in K, r in 2..k: even = "kernel"}:
    sum{g in D} g * at[e,g,k,r-1] <= sum{g in D} g * at[e,g,k,r];
s.t. read{(w,e,g) in shares}: tokens[w,e,g] <= loads[w,e] * reads[w,e,g];
s.t. held{(w,e,g) in shares}: reads[w,e,g] <= sum{k in K} lies[e,g,k];

# RP-C1: one number of copies.
s.t. RP_C1{e in E}: sum{k in K} count[e,k] = 1;

# RP-C2: slots.
s.t. RP_C2{g in D}: sum{e in E, k in K} lies[e,g,k] <= slots;

# RP-C3: copies on different devices.
s.t. RP_C3{e in E, g in D}: sum{k in K} lies[e,g,k] <= 1;

# RP-C4: a group within a node.
s.t. RP_C4{j in 0..groups-1: nodes > 1}: sum{n in 0..nodes-1} home[j,n] = 1;
s.t. RP_C4_there{e in E, g in D: nodes > 1}:
    sum{k in K} lies[e,g,k] <= 2 * home[group_of[e], node_of[g]];

# RP-C5: the devices' loads.
s.t. RP_C5{w in windows, g in D: even = "even"}:
    sum{e in E, k in K} loads[w,e] * unit / scale / k * lies[e,g,k] <= peak[w];
s.t. RP_C5_all{w in windows, e in E: even = "free" and shared = "no" and loads[w,e] > 0}:
    sum{g in D} part[w,e,g] = loads[w,e] * unit / scale * sum{k in K} count[e,k];
s.t. RP_C5_held{w in windows, e in E, g in D: even = "free" and shared = "no" and loads[w,e] > 0}:
    part[w,e,g] <= loads[w,e] * unit / scale * sum{k in K} lies[e,g,k];
s.t. RP_C5_free{w in windows, g in D: even = "free" and shared = "no"}:
    sum{e in E: loads[w,e] > 0} part[w,e,g] <= peak[w];
# Kernel: reading, and computing, each with the tokens' way there.
s.t. RP_C5_even_read{w in windows, g in D: even = "kernel"}:
    sum{e in E, k in K, r in 1..k} (if floor(loads[w,e] / k) + (if r <= loads[w,e] mod k then 1) > 0
        then read_ns + way[g] * (floor(loads[w,e] / k) + (if r <= loads[w,e] mod k then 1)))
        / scale * at[e,g,k,r] <= peak[w];
s.t. RP_C5_even_compute{w in windows, g in D: even = "kernel"}:
    sum{e in E, k in K, r in 1..k} (token_ns + way[g]) / scale
        * (floor(loads[w,e] / k) + (if r <= loads[w,e] mod k then 1)) * at[e,g,k,r] <= peak[w];
s.t. RP_C5_shared_read{w in windows, g in D: shared = "kernel"}:
    sum{e in E} (read_ns / scale * reads[w,e,g] + way[g] / scale * tokens[w,e,g]) <= peak[w];
s.t. RP_C5_shared_compute{w in windows, g in D: shared = "kernel"}:
    sum{e in E} (token_ns + way[g]) / scale * tokens[w,e,g] <= peak[w];

# Implied: a copy alone fits below the peak. Devices that are alike are numbered so that the first
# ones have the copies of the expert with the most tokens. An even split of whole tokens knows the
# devices' numbers, and links tell them apart.
s.t. alone{w in windows, e in E: work = "tokens"}:
    sum{k in K} loads[w,e] * unit / scale / k * count[e,k] <= peak[w];
s.t. numbered{g in 0..devices-2: nodes = 1 and current_length = 0
    and even <> "kernel" and links_length = 0}:
    sum{k in K} lies[hottest,g,k] >= sum{k in K} lies[hottest,g+1,k];

# RP-C6: moves.
s.t. RP_C6{i in {1}: current_length > 0}:
    sum{e in E, g in D, k in K: not exists{p in D} current[e,p] = g} move_cost / scale * lies[e,g,k]
    <= moves;

# RP-C7: an expert's shares are its tokens.
s.t. RP_C7{w in windows, e in E: shared = "kernel"}: sum{g in D} tokens[w,e,g] = loads[w,e];

# RP-C8: copies beyond one per expert.
s.t. RP_C8{i in {1}: slot_cost > 0}:
    sum{e in E, k in K} slot_cost / scale * (k - 1) * count[e,k] <= slots_paid;

solve;

printf "{""copies"": [" > output;
for {e in E} {
    printf "%s[", (if e = 0 then "" else ", ") >> output;
    for {g in D, k in K: lies[e,g,k] > 0.5} {
        printf "%s%d", (if exists{h in D, j in K: h < g} lies[e,h,j] > 0.5 then ", " else ""), g
            >> output;
        for {{0}: lies[e,g,k] > 1.5} { printf ", %d", g >> output; }
    }
    printf "]" >> output;
}
printf "]" >> output;
for {{0}: shared = "kernel"} { printf ", ""shares"": [" >> output; }
for {w in windows: shared = "kernel"} {
    printf "%s[", (if w = 0 then "" else ", ") >> output;
    for {e in E} {
        printf "%s[", (if e = 0 then "" else ", ") >> output;
        for {g in D, k in K: lies[e,g,k] > 0.5} {
            printf "%s%d", (if exists{h in D, j in K: h < g} lies[e,h,j] > 0.5 then ", " else ""),
                round(tokens[w,e,g]) >> output;
            for {{0}: lies[e,g,k] > 1.5} { printf ", 0" >> output; }
        }
        printf "]" >> output;
    }
    printf "]" >> output;
}
for {{0}: shared = "kernel"} { printf "]" >> output; }
printf "}\n" >> output;

end;
