"""HiGHS or SCIP on an exported model, by the solver's own package; writes its solution file."""

import json
import sys

given = json.loads(sys.argv[1])
if given["solver"] == "highs":
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.readModel(given["model"])
    highs.run()
    highs.writeSolution(given["out"], 0)
    version = highs.version()
else:
    import pyscipopt

    model = pyscipopt.Model()
    model.hideOutput()
    model.readProblem(given["model"])
    model.optimize()
    model.writeBestSol(given["out"])
    version = str(model.version())
print(json.dumps(version))
