# threads: an expert's parts on CPU threads (KTransformers 3.2). See spec.md.
# Usable with plain glpsol: glpsol -m threads.mod -d instance.dat

set experts;                                 # active experts, 0, 1, ...
param threads, integer, >= 1;                # identical threads
param pull_ns, integer, >= 0;                # taking one part from the queue
param grains_length, integer, >= 1;          # how many grains there are
param grains{0..grains_length-1}, integer, >= 1;  # parts that a grain cuts an expert into

param load_ns{experts}, integer, >= 0;       # loading an expert's input
param part_ns{experts, 0..grains_length-1}, integer, default -1;  # one part; -1: no such grain

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

set workers := 0..threads-1;
set choices{e in experts} := {k in 0..grains_length-1: part_ns[e,k] >= 0};

# Microseconds suit GLPK's absolute tolerances; numbers far above 10^7 do not.
param unit := 10 ^ max(3, ceil(log10(1 + sum{e in experts} max{k in choices[e]}
    (grains[k] * (part_ns[e,k] + pull_ns + load_ns[e])))) - 7);

var grain{e in experts, k in choices[e]}, binary;                  # e is cut into grains[k] parts
var parts{e in experts, k in choices[e], t in workers}, integer, >= 0, <= grains[k];
var touched{experts, workers}, binary;       # 1 if the thread loads the expert's input
var makespan, >= 0;                          # in units

minimize makespan_ns: unit * makespan;

s.t. TH_C1{e in experts}: sum{k in choices[e]} grain[e,k] = 1;

s.t. TH_C2{e in experts, k in choices[e]}:
    sum{t in workers} parts[e,k,t] = grains[k] * grain[e,k];

s.t. TH_C3{t in workers}:
    sum{e in experts, k in choices[e]} (part_ns[e,k] + pull_ns) / unit * parts[e,k,t]
    + sum{e in experts} load_ns[e] / unit * touched[e,t] <= makespan;
s.t. TH_C3_touched{e in experts, k in choices[e], t in workers}:
    parts[e,k,t] <= grains[k] * touched[e,t];

solve;

printf "{""grain"": [" > output;
for {e in experts} {
    printf "%s%d", (if e = 0 then "" else ", "),
        (if sum{k in choices[e]} grain[e,k] < 0.5 then grains_length
         else min{k in choices[e]: grain[e,k] > 0.5} k) >> output;
}
printf "], ""thread"": [" >> output;
for {e in experts} {
    printf "%s[", (if e = 0 then "" else ", ") >> output;
    for {k in choices[e]: grain[e,k] > 0.5} {
        for {t in workers, i in 1..round(parts[e,k,t])} {
            printf "%s%d",
                (if sum{s in workers: s < t} round(parts[e,k,s]) + i = 1 then "" else ", "), t
                >> output;
        }
    }
    printf "]" >> output;
}
printf "]}\n" >> output;

end;
