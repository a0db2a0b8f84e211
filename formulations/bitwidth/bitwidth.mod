# bitwidth: how many bits each expert gets. See spec.md.
# Parameters have the names of the instance's JSON fields; a list of objects is a set 0, 1, ..., one
# within another a set of pairs, and `bits_length` is how many widths there are.

set layers;
set experts, dimen 2;                       # (layer, expert's place in it)
param bits_length, integer, >= 1;
set W := 0..bits_length-1;                  # widths, by their place
param bits{W}, integer, >= 1;
param loss{experts, W}, >= 0;
param budget_bits{layers}, >= 0, default 0;
param model_budget_bits, default -1;        # -1: none, the layers' budgets hold
param granularity, symbolic, default "expert";
param min_count{1..64}, integer, >= 0, default 0;   # by width

param output, symbolic, default "/dev/stdout";  # where the solution is printed, as JSON

var has{experts, W}, binary;                # 1 if the expert has this width

minimize summed_loss: sum{(l,e) in experts, j in W} loss[l,e,j] * has[l,e,j];

s.t. at_most_one{(l,e) in experts}: sum{j in W} has[l,e,j] <= 1;

s.t. BW_C1{(l,e) in experts}: sum{j in W} has[l,e,j] = 1;

s.t. BW_C2{l in layers: model_budget_bits < 0}:
    sum{(l,e) in experts, j in W} bits[j] * has[l,e,j] <= budget_bits[l];

s.t. BW_C3{i in {1}: model_budget_bits >= 0}:
    sum{(l,e) in experts, j in W} bits[j] * has[l,e,j] <= model_budget_bits;

s.t. BW_C4{(l,e) in experts, j in W: granularity <> "expert" and e > 0}:
    has[l,e,j] = has[l,0,j];
s.t. BW_C4_layers{l in layers, j in W: granularity = "model" and l > 0}:
    has[l,0,j] = has[0,0,j];

s.t. BW_C5{l in layers, j in W: min_count[bits[j]] > 0}:
    sum{(l,e) in experts} has[l,e,j] >= min_count[bits[j]];

solve;

printf "{""bits"": [" > output;
for {l in layers} {
    printf "%s[", (if l = 0 then "" else ", ") >> output;
    for {(l,e) in experts} {
        printf "%s", (if e = 0 then "" else ", ") >> output;
        for {{0}: sum{j in W} has[l,e,j] < 0.5} { printf "null" >> output; }
        for {j in W: has[l,e,j] > 0.5} { printf "%d", bits[j] >> output; }
    }
    printf "]" >> output;
}
printf "]}\n" >> output;

end;
