# balance: slices that the GPU takes over from NDP units (edge GPU-NDP, Eq. 1-3). See spec.md.
# Usable with plain glpsol: glpsol -m balance.mod -d instance.dat

set experts;                                 # active experts, 0, 1, ...
param ndp_units, integer, >= 1;              # units that each hold a part of every expert
param slices_per_unit, integer, >= 1;        # slices that a unit's part of an expert has
param seq_len, integer, >= 1;                # tokens of the sequence; 1 in decode
param activation_ns, >= 0;                   # one activation transfer
param slice_transfer_ns, >= 0;               # link time of a slice that is not resident

param resident{experts}, binary;             # 1 if the weights are on the GPU already
param slice_gpu_ns{experts}, >= 0;           # GPU time of a slice
param slice_ndp_ns{experts}, >= 0;           # time of a slice on its unit

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

set units := 0..ndp_units-1;
set away := {e in experts: not resident[e]};
param slices := ndp_units * slices_per_unit; # slices of one expert
param gpu_overhead := (seq_len - 1) * activation_ns * ndp_units;
param ndp_overhead := (ndp_units + 1) * activation_ns;

# Microseconds suit GLPK's absolute tolerances; numbers far above 10^7 do not.
param unit := 10 ^ max(3, ceil(log10(1 + gpu_overhead + ndp_overhead + slices *
    sum{e in experts} (slice_transfer_ns + slice_gpu_ns[e] + slice_ndp_ns[e]))) - 7);

var taken{experts, units}, integer, >= 0, <= 2 * slices_per_unit;
var pulled{away}, binary;                    # 1 if a slice of the expert passes the link
var last{away}, binary;                      # 1 for a pulled expert whose slice is computed last
var some, binary;                            # 1 if any slice passes the link
var remains{1..2}, binary;                   # 1 if NDP work remains, as each side must know
var makespan, >= 0;                          # in units

minimize makespan_ns: unit * makespan;

s.t. BA_C1{e in experts, u in units}: taken[e,u] <= slices_per_unit;

# The GPU side. Johnson's makespan is the largest of three sums.
s.t. BA_C2{e in experts}: sum{u in units} taken[e,u] <= slices;
s.t. BA_C2_gpu:
    sum{e in experts, u in units} slice_gpu_ns[e] / unit * taken[e,u]
    + gpu_overhead / unit * remains[1] <= makespan;
s.t. BA_C2_first:
    slice_transfer_ns / unit * some
    + sum{e in away, u in units} slice_gpu_ns[e] / unit * taken[e,u]
    + gpu_overhead / unit * remains[1] <= makespan;
s.t. BA_C2_link:
    sum{e in away, u in units} slice_transfer_ns / unit * taken[e,u]
    + sum{e in away} slice_gpu_ns[e] / unit * last[e]
    + gpu_overhead / unit * remains[1] <= makespan;
s.t. BA_C2_pulled{e in away}: sum{u in units} taken[e,u] <= slices * pulled[e];
s.t. BA_C2_some{e in away}: pulled[e] <= some;
s.t. BA_C2_last{e in away}: last[e] <= sum{u in units} taken[e,u];
s.t. BA_C2_one: sum{e in away} last[e] = some;
s.t. BA_C2_remains{e in experts, u in units}:
    taken[e,u] + slices_per_unit * remains[1] >= slices_per_unit;

s.t. BA_C3{u in units}:
    sum{e in experts} slice_ndp_ns[e] / unit * (slices_per_unit - taken[e,u])
    + ndp_overhead / unit * remains[2] <= makespan;
s.t. BA_C3_remains{e in experts, u in units}:
    taken[e,u] + slices_per_unit * remains[2] >= slices_per_unit;

solve;

printf "{""gpu_slices"": [" > output;
for {e in experts} {
    printf "%s[", (if e = 0 then "" else ", ") >> output;
    for {u in units} {
        printf "%s%d", (if u = 0 then "" else ", "), round(taken[e,u]) >> output;
    }
    printf "]" >> output;
}
printf "]}\n" >> output;

end;
