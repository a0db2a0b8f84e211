# tri_domain: expert scheduling on a fixed layout (TriMoE 4.2, Eq. 1-7). See spec.md.
# Usable with plain glpsol: glpsol -m tri_domain.mod -d instance.dat

set experts;                                 # active experts, 0, 1, ...
param dimms, integer, >= 1;                  # number of DIMMs, each with an NDP unit

param dimm{experts}, integer, default -1;    # DIMM that holds the expert; -1: striped over all
param gpu_ns{experts}, >= 0;                 # complete cost on the GPU (Eq. 1 or 2)
param cpu_ns{experts}, >= 0;                 # complete cost on the CPU (Eq. 3)
param ndp_ns{experts}, >= 0, default 0;      # cost on its DIMM's NDP unit (Eq. 4)
param gpu_dram_ns{experts}, >= 0;            # time the GPU's read keeps a DIMM busy
param cpu_dram_ns{experts}, >= 0;            # time the CPU's read keeps a DIMM busy

# Schema 2. What is absent is no limit: the defaults are those of schema 1.
param gpu_calc_ns{i in experts}, >= 0, default gpu_ns[i];  # computation alone on the GPU
param pcie_ns{experts}, >= 0, default 0;     # transfer over PCIe
param gpu_base_ns, >= 0, default 0;          # the GPU's base load
param dimm_share{0..1}, integer, default 1;  # numerator, denominator: share of a striped read
param channels{0..dimms-1}, integer, default -1;  # memory channel of each DIMM; -1: no limit

# Further copies of experts, each on a DIMM by itself: pairs (expert, number), 0, 1, ...
set copies, dimen 2, default setof{i in experts: 0 = 1} (i,0);
param copies_dimm{copies}, integer;
param copies_gpu_ns{copies}, >= 0;
param copies_cpu_ns{copies}, >= 0;
param copies_ndp_ns{copies}, >= 0;
param copies_gpu_dram_ns{copies}, >= 0;
param copies_cpu_dram_ns{copies}, >= 0;
param copies_gpu_calc_ns{(i,k) in copies}, >= 0, default copies_gpu_ns[i,k];
param copies_pcie_ns{copies}, >= 0, default 0;

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

set domains := {"gpu", "cpu", "ndp"};

# How long a host's read keeps a DIMM busy, rounded up for each read.
param gpu_charge_ns{i in experts} := if dimm[i] >= 0 then gpu_dram_ns[i]
    else ceil(gpu_dram_ns[i] * dimm_share[0] / dimm_share[1]);
param cpu_charge_ns{i in experts} := if dimm[i] >= 0 then cpu_dram_ns[i]
    else ceil(cpu_dram_ns[i] * dimm_share[0] / dimm_share[1]);

param longest{i in experts} :=
    max(gpu_ns[i], cpu_ns[i], ndp_ns[i], gpu_dram_ns[i], cpu_dram_ns[i])
    + sum{(i,k) in copies} max(copies_gpu_ns[i,k], copies_cpu_ns[i,k], copies_ndp_ns[i,k],
        copies_gpu_dram_ns[i,k], copies_cpu_dram_ns[i,k]);
# Microseconds suit GLPK's absolute tolerances; numbers far above 10^7 do not.
param unit := 10 ^ max(3, ceil(log10(1 + gpu_base_ns + sum{i in experts} longest[i])) - 7);

var runs{experts, domains}, binary;          # 1 if the expert runs in the domain, first copy
var from_copy{copies, domains}, binary;      # 1 if it runs in the domain from this copy
var makespan, >= 0;                          # in units

minimize makespan_ns: unit * makespan;

# TD-C1
s.t. TD_C1{i in experts}:
    sum{o in domains} (runs[i,o] + sum{(i,k) in copies} from_copy[i,k,o]) = 1;

# TD-C2
s.t. TD_C2{i in experts: dimm[i] < 0}: runs[i,"ndp"] = 0;

# TD-C3
s.t. TD_C3:
    gpu_base_ns / unit + sum{i in experts} gpu_calc_ns[i] / unit * runs[i,"gpu"]
    + sum{(i,k) in copies} copies_gpu_calc_ns[i,k] / unit * from_copy[i,k,"gpu"] <= makespan;

# TD-C4
s.t. TD_C4: sum{i in experts} cpu_ns[i] / unit * runs[i,"cpu"]
    + sum{(i,k) in copies} copies_cpu_ns[i,k] / unit * from_copy[i,k,"cpu"] <= makespan;

# TD-C5
s.t. TD_C5{d in 0..dimms-1}:
    sum{i in experts: dimm[i] < 0 or dimm[i] = d}
        (gpu_charge_ns[i] / unit * runs[i,"gpu"] + cpu_charge_ns[i] / unit * runs[i,"cpu"])
    + sum{i in experts: dimm[i] = d} ndp_ns[i] / unit * runs[i,"ndp"]
    + sum{(i,k) in copies: copies_dimm[i,k] = d}
        (copies_gpu_dram_ns[i,k] / unit * from_copy[i,k,"gpu"]
        + copies_cpu_dram_ns[i,k] / unit * from_copy[i,k,"cpu"]
        + copies_ndp_ns[i,k] / unit * from_copy[i,k,"ndp"])
    <= makespan;

# TD-C6
s.t. TD_C6{c in 0..dimms-1: channels[c] >= 0 and not exists{d in 0..c-1} channels[d] = channels[c]}:
    sum{i in experts: dimm[i] < 0}
        (gpu_dram_ns[i] / unit * runs[i,"gpu"] + cpu_dram_ns[i] / unit * runs[i,"cpu"])
    + sum{d in 0..dimms-1, i in experts: channels[d] = channels[c] and dimm[i] = d}
        (gpu_dram_ns[i] / unit * runs[i,"gpu"] + cpu_dram_ns[i] / unit * runs[i,"cpu"])
    + sum{(i,k) in copies: channels[copies_dimm[i,k]] = channels[c]}
        (copies_gpu_dram_ns[i,k] / unit * from_copy[i,k,"gpu"]
        + copies_cpu_dram_ns[i,k] / unit * from_copy[i,k,"cpu"])
    <= makespan;

# TD-C7
s.t. TD_C7: sum{i in experts} pcie_ns[i] / unit * runs[i,"gpu"]
    + sum{(i,k) in copies} copies_pcie_ns[i,k] / unit * from_copy[i,k,"gpu"] <= makespan;

solve;

printf "{""assignment"": [" > output;
for {i in experts} {
    printf "%s%s", (if i = 0 then "" else ", "),
        (if runs[i,"gpu"] + sum{(i,k) in copies} from_copy[i,k,"gpu"] > 0.5 then """gpu"""
         else if runs[i,"cpu"] + sum{(i,k) in copies} from_copy[i,k,"cpu"] > 0.5 then """cpu"""
         else if runs[i,"ndp"] + sum{(i,k) in copies} from_copy[i,k,"ndp"] > 0.5 then """ndp"""
         else "null") >> output;
}
printf "]" >> output;
for {0..0: card(copies) > 0} {
    printf ", ""source"": [" >> output;
    for {i in experts} {
        printf "%s", (if i = 0 then "" else ", ") >> output;
        printf{0..0: sum{(i,k) in copies, o in domains} from_copy[i,k,o] < 0.5} "null" >> output;
        printf{(i,k) in copies: sum{o in domains} from_copy[i,k,o] > 0.5} "%d",
            copies_dimm[i,k] >> output;
    }
    printf "]" >> output;
}
printf "}\n" >> output;

end;
