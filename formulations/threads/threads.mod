# threads: which experts stay in GPU memory. See spec.md.
# Parameters have the names of the instance's JSON fields; a list of objects is a set 0, 1, ...

set experts;
param capacity_bytes, >= 0;
param min_kept, integer, >= 0;
param size_bytes{experts}, >= 0;
param miss_ns{experts}, >= 0;

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

var kept{experts}, binary;

minimize cost_ns: sum{i in experts} miss_ns[i] * (1 - kept[i]);

s.t. TH_C1: sum{i in experts} size_bytes[i] * kept[i] <= capacity_bytes;

s.t. TH_C2: sum{i in experts} kept[i] >= min_kept;

solve;

printf "{""kept"": [" > output;
for {i in experts} {
    printf "%s%s", (if i = 0 then "" else ", "), (if kept[i] > 0.5 then "true" else "false")
        >> output;
}
printf "]}\n" >> output;

end;
