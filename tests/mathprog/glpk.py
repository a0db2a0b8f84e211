"""GLPK in a process of its own, as it may abort and its generator of models looks at no limit.

A request names the files of a model and its data, the constraints to leave out, and the seconds
that GLPK has; the answer says what GLPK claims. The model prints its solution to a file itself.
"""

from time import perf_counter
from typing import Any

import swiglpk as glpk

from tests.rooms.solvers import serve_pipes


def solved(asked: dict[str, Any]) -> dict[str, Any]:
    """Return GLPK's answer to a request.

    Parameters
    ----------
    asked
        ``model``, ``data``: files; ``without``: constraint IDs as in names of rows; ``seconds``.

    Returns
    -------
    dict
        ``rejected`` if GLPK does not accept the model with its data; else ``code`` and ``status``,
        ``proven`` ("optimal", "infeasible" or None), and ``objective``, None without a solution.
    """
    end = perf_counter() + asked["seconds"]
    glpk.glp_term_out(glpk.GLP_OFF)
    translator, problem = glpk.glp_mpl_alloc_wksp(), glpk.glp_create_prob()
    try:
        if (
            glpk.glp_mpl_read_model(translator, asked["model"], 1)
            or glpk.glp_mpl_read_data(translator, asked["data"])
            or glpk.glp_mpl_generate(translator, None)
        ):
            return {"rejected": True}
        glpk.glp_mpl_build_prob(translator, problem)
        _neutralise(problem, set(asked["without"]))
        answer = _solve(problem, end - perf_counter())
        if answer["objective"] is not None:
            glpk.glp_mpl_postsolve(translator, problem, glpk.GLP_MIP)
    finally:
        glpk.glp_mpl_free_wksp(translator)  # closes the printed file
        glpk.glp_delete_prob(problem)
    return answer


def _neutralise(problem: object, left_out: set[str]) -> None:
    """Free the rows of the constraints left out: ``TD_C1[3]`` belongs to TD_C1."""
    for row in range(1, glpk.glp_get_num_rows(problem) + 1):
        name = glpk.glp_get_row_name(problem, row).split("[")[0]
        if "_".join(name.split("_")[:2]) in left_out:
            glpk.glp_set_row_bnds(problem, row, glpk.GLP_FR, 0, 0)


def _solve(problem: object, seconds: float) -> dict[str, Any]:
    """Return code, status, proof and objective of GLPK's branch and bound."""
    parameters = glpk.glp_iocp()
    glpk.glp_init_iocp(parameters)
    parameters.presolve, parameters.tm_lim = glpk.GLP_ON, max(1, int(seconds * 1000))
    code = glpk.glp_intopt(problem, parameters)
    status = glpk.glp_mip_status(problem)
    answer: dict[str, Any] = {"code": code, "status": status, "proven": None, "objective": None}
    if code == glpk.GLP_ENOPFS or status == glpk.GLP_NOFEAS:
        answer["proven"] = "infeasible"
    elif status == glpk.GLP_OPT:
        answer["proven"] = "optimal"
    if status in (glpk.GLP_OPT, glpk.GLP_FEAS):
        answer["objective"] = round(glpk.glp_mip_obj_val(problem))
    return answer


if __name__ == "__main__":
    serve_pipes(lambda asked, _: solved(asked))
