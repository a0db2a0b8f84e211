"""A second reason for what a method claims: no answer is optimal by one engine's word.

A solution counts once the checker has seen it. A bound that meets its objective, or the claim that
there is none, is accepted if the package computed every step itself. Else it needs a second reason,
asked for in this order, cheapest first:

1. where CP-SAT answered inside a method of the problem's own, each answer that the bound rests on
   is asked for again without presolve;
2. "is there a better solution?" is put to CP-SAT another way than it was asked;
3. where the first word came from an engine whose tolerance is too wide, CP-SAT is asked both ways;
4. a certificate is made, by a lemma's model or the plain one, and checked by
   `moeopt.certificates.certificate`.

What contradicts a checked solution is noted as refuted, and another engine is asked for the answer.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from moeopt.core.clock import TimeLimitError
from moeopt.core.errors import ContradictionError, InputError
from moeopt.core.logs import logger_of
from moeopt.core.search import Refutation
from moeopt.core.wording import shown
from moeopt.solvers.evidence import Claim, Kind, Proof
from moeopt.solvers.limits import Deadline
from moeopt.solvers.methods import get_method
from moeopt.solvers.task import Outcome, Task, Trace

if TYPE_CHECKING:
    from moeopt.core.cpsat import Way

logger = logger_of(__name__)

BY = "cp-sat"

RESERVED = 0.1
"""Share of a limit that is kept for verification."""

LEAST = 1.0
"""Seconds, or units of work, that verification has at least."""

ROUNDS = 4
"""How often another engine may find that the answer so far was not the best."""


def verified(task: Task, outcome: Outcome) -> Outcome:
    """Return the outcome of an exact method with its solution checked and its proof confirmed.

    `Outcome.proof` says what its bound rests on; where it is "single", nothing confirmed it within
    the limit. With `Task.verify` False no second engine is asked.

    Raises
    ------
    ContradictionError
        If the checker refuses the solution, and neither a solution nor a proof stands.
    """
    if outcome.proof is not None or task.method.kind != "exact":
        return outcome
    return _Verification(task, outcome).run()


@dataclass
class _Word:
    """What one engine claims: that nothing is below `bound`, or that there is no solution.

    Attributes
    ----------
    optimal
        The objective of a solution that it calls optimal, also where `bound`, which leaves room for
        its tolerances, does not say so.
    """

    by: str
    way: str
    bound: int | None
    infeasible: bool
    optimal: int | None = None
    counts: bool = True
    refutations: list[Refutation] = field(default_factory=list)


class _Verification:
    """The claims of one solve, held against each other until one answer stands."""

    def __init__(self, task: Task, outcome: Outcome) -> None:
        self.task, self.outcome = task, outcome
        self.limit = Deadline(max(task.end.remaining_s, LEAST))
        self.solution, self.objective = task.start, task.upper
        self.own = outcome.own_bound
        self.own_infeasible = outcome.proven == "infeasible" and outcome.by is None
        self.word: _Word | None = None
        if outcome.by is not None:
            self.word = _Word(
                outcome.by,
                outcome.parameters,
                outcome.bound,
                outcome.proven == "infeasible",
                counts=outcome.counts,
                refutations=outcome.refutations,
            )
        self.asked: set[str] = set()
        self.fell = False
        self.refused: str | None = None

    def run(self) -> Outcome:
        """Return the outcome with what stands of it."""
        outcome, task = self.outcome, self.task
        valued = self._judge(outcome, outcome.by or task.method.name, outcome.parameters)
        if self.word is not None and outcome.proven == "optimal":
            self.word.optimal = valued
        try:
            proof = self._reason()
        except KeyboardInterrupt:
            proof, outcome.termination = None, "interrupted"
        self._drop_contradicted()
        return self._assumed(proof)

    def _reason(self) -> Proof | None:
        """Return what the answer that stands in the end rests on; None: on one engine's word."""
        task = self.task
        for _ in range(ROUNDS):
            self._drop_contradicted()
            if self.own_infeasible or self._closes(self.own):
                return "own"
            if self._interrupted or self.limit.remaining_s == 0 or not task.verify:
                break
            if self.word is not None and self._word_closes(self.word):
                spent = task.end.limit - task.end.remaining_s  # about as much is tried first
                reason = self._second_reason(self.word, max(spent, LEAST))
                if reason is None and self._certified(max(spent, 2 * LEAST)):
                    return "certificate"
                if reason is None and self.word is not None and not self._interrupted:
                    reason = self._second_reason(self.word, self.limit.remaining_s)
                if reason is not False:
                    return "confirmed" if reason else None
            elif not self.fell or not self._ask_another():
                break
        return None

    @property
    def _interrupted(self) -> bool:
        return self.outcome.termination == "interrupted"

    def _judge(self, answer: Outcome, engine: str, way: str) -> int | None:
        """Hold a solution to the checker, keep it if it is the best, and return its objective."""
        if answer.solution is None:
            return None
        reason = wrong(self.task, answer)
        actual = answer.claim
        if reason is None and not self.task.without:
            actual = self.task.checked_objective(answer.solution)
            if answer.claim is not None and answer.claim < actual - answer.tolerance:
                self._note(engine, way, "solution", answer.claim, self._costs(answer, actual))
                self.fell = True
        if reason is not None:
            self._note(engine, way, "solution", answer.claim, reason)
            self.fell, self.refused = True, self.refused or reason
            return None
        if actual is not None and (self.objective is None or actual < self.objective):
            self.solution, self.objective = answer.solution, actual
        return actual

    def _costs(self, answer: Outcome, actual: int) -> str:
        """Return the words on a solution that costs more than is claimed, with the rules why."""
        unpack, problem = self.task.packing.unpack, self.task.problem
        claimed = None if answer.claim is None else unpack(answer.claim)
        broken = problem.violations(self.task.instance, answer.solution, claimed)
        rules = "".join(f"; {rule}: {sentence}" for rule, sentence in broken[:1])
        return f"it costs {unpack(actual)}{rules}"

    def _drop_contradicted(self) -> None:
        """Let go of claims that a checked solution contradicts."""
        if self.objective is None:
            return
        reason = f"there is a solution of {self.task.packing.unpack(self.objective)}"
        own = self.task.method.name
        if self.own_infeasible:
            self._note(own, "", "infeasible", None, reason)
            self.own_infeasible, self.fell = False, True
        if self.own is not None and self.own > self.objective:
            self._note(own, "", "bound", self.own, reason)
            self.own, self.fell = None, True
        if self.task.lower is not None and self.task.lower > self.objective:
            self._note("the combinatorial bound", "", "bound", self.task.lower, reason)
            self.task.lower, self.fell = None, True
        word = self.word
        least = max(word.bound or 0, word.optimal or 0) if word is not None else 0
        if word is not None and (word.infeasible or least > self.objective):
            self._note(word.by, word.way, *_claim(None if word.infeasible else least), reason)
            self._drop_word()

    def _drop_word(self) -> None:
        if self.word is not None and self.word.by == BY:
            self.asked.add(self.word.way)
        self.word, self.fell = None, True

    def _closes(self, bound: int | None) -> bool:
        """Tell whether a bound, or the one known before, meets the best objective."""
        known = [value for value in (bound, self.task.lower) if value is not None]
        if self.objective is None or not known:
            return False
        return max(known) == self.objective or self._up(max(known)) == self.objective

    def _up(self, bound: int) -> int:
        """Return a bound rounded up to the grid of objectives."""
        return bound if self.task.without else self.task.up_to_grid(bound)

    def _word_closes(self, word: _Word) -> bool:
        if word.infeasible or self.objective is None:
            return word.infeasible and self.objective is None
        return word.optimal == self.objective or self._closes(word.bound)

    def _second_reason(self, word: _Word, limit: float) -> bool | None:
        """Ask whether there is something better; False: there is, None: not decided within a limit.

        Each run of CP-SAT has the limit, in seconds or units of work.
        """
        from moeopt.core.cpsat import SAFE, SECOND

        if word.refutations and (said := self._asked_again(word, limit)) is not None:
            if not said:
                self._drop_word()
            return said
        fine = word.counts and (word.infeasible or self._closes(word.bound))
        ways = [SECOND] if fine else [SAFE, SECOND]
        if word.by == BY:
            ways = [SAFE if word.way == SECOND.name else SECOND]
        for way in ways:
            answer = self._ask(way, self.objective, limit)
            if answer is None or (answer.proven != "infeasible" and answer.solution is None):
                return None
            if answer.proven != "infeasible":
                before = self.objective
                self._judge(answer, BY, way.name)
                if self.objective == before:
                    return None
                self._drop_contradicted()
                self._take(answer, way)
                return False
            self._note(BY, way.name, *_claim(self.objective))
        return True

    def _asked_again(self, word: _Word, limit: float) -> bool | None:
        """Ask again for each answer inside a method that its bound rests on."""
        from moeopt.core.cpsat import SECOND, again

        for refutation in word.refutations:
            remaining = min(limit, self.limit.remaining_s)
            if remaining == 0:
                return None
            run = again(refutation, remaining, self.task.seed + 1)
            try:
                answer = run.solve(proves="nothing")
            except KeyboardInterrupt:
                self.outcome.termination = "interrupted"
                return None
            if answer.found:
                reason = f"{BY} ({SECOND.name}) refutes a subproblem's answer"
                self._note(word.by, word.way, "bound", word.bound, reason)
                return False
            if answer.status != "infeasible":
                return None
        self._say(f"{BY} ({SECOND.name}): the same of {len(word.refutations)} subproblems")
        return True

    def _certified(self, limit: float) -> bool:
        """Make a certificate of what is not confirmed, and tell whether it was accepted."""
        remaining = self.limit.remaining_s
        if self._interrupted or remaining == 0 or self.task.without:
            return False
        from moeopt.certificates.forms import proven_by_any

        made = proven_by_any(self.task.instance, self.objective, min(limit, remaining))
        if made is not None:
            self._say("a certificate was made and checked")
        return made is not None

    def _ask_another(self) -> bool:
        """Let CP-SAT answer where a claim fell, a way in which it did not yet; tell if it can."""
        from moeopt.core.cpsat import SAFE, SECOND

        way = next((way for way in (SAFE, SECOND) if way.name not in self.asked), None)
        answer = None if way is None else self._ask(way, None, self.limit.remaining_s)
        if answer is None or way is None:
            return False
        self._judge(answer, BY, way.name)
        self._take(answer, way)
        return True

    def _ask(self, way: "Way", below: int | None, limit: float) -> Outcome | None:
        """Return CP-SAT's answer to the whole instance, asked one way; None if it gave none."""
        from moeopt.solvers.backends import cpsat

        task, remaining = self.task, min(limit, self.limit.remaining_s)
        self.asked.add(way.name)
        if remaining == 0:
            return None
        deadline = Deadline(remaining)
        known = replace(
            task,
            method=get_method(task.problem, BY),
            deadline=deadline,
            trace=Trace(deadline, None, task.packing),
            seed=(task.seed + 1) % 2**31,
            start=self.solution if below is None else None,
            upper=self.objective,
        )
        try:
            answer = cpsat.solved(known, way, below)
        except (InputError, TimeLimitError) as error:
            self._say(f"{BY} ({way.name}): {str(error) or 'no time left'}")
            return None
        self.outcome.solve_s += answer.build_s + answer.solve_s
        if answer.termination == "interrupted":
            self.outcome.termination = "interrupted"
        if answer.proven is None:
            self._say(f"{BY} ({way.name}): {answer.raw_status}")
        return answer

    def _take(self, answer: Outcome, way: "Way") -> None:
        """Let an answer to the whole instance, which was judged, be the word from now on."""
        bound, infeasible = answer.bound, answer.proven == "infeasible"
        self.word = _Word(BY, way.name, bound, infeasible)
        if infeasible or bound is not None:
            self._note(BY, way.name, *_claim(None if infeasible else bound))

    def _assumed(self, proof: Proof | None) -> Outcome:
        """Return the outcome with what stands."""
        outcome, word = self.outcome, self.word
        known = [bound for bound in (self.own, self.task.lower) if bound is not None]
        own = max(known, default=None)
        outcome.solution, outcome.claim, outcome.tolerance = self.solution, self.objective, 0
        outcome.own_bound = outcome.bound = own
        outcome.proven = "infeasible" if self.own_infeasible else None
        if word is not None and word.infeasible:
            outcome.proven, proof = "infeasible", proof or "single"
        elif word is not None and word.bound is not None and (own is None or word.bound > own):
            outcome.bound, proof = word.bound, proof or "single"
        elif proof is None and own is not None:
            proof = "own"
        if outcome.bound is not None and outcome.bound != self.objective:
            outcome.bound = self._up(outcome.bound)
        if proof in ("confirmed", "certificate") and self.objective is not None:
            outcome.bound = self.objective
        outcome.proof = proof
        if proof == "single" and self.task.verify and outcome.termination == "completed":
            outcome.termination = "time_limit"
        if outcome.proven is None and self.objective is not None and self._closes(outcome.bound):
            outcome.proven = "optimal"
        nothing = self.objective is None and outcome.proven is None
        if self.refused is not None and nothing:
            where = f"{self.task.instance.name}, method {self.task.method.name}"
            raise ContradictionError(f"{where}: {self.refused}")
        return outcome

    def _note(self, engine: str, way: str, kind: Kind, value: int | None, reason: str = "") -> None:
        """Enter a claim, which fell if there is a reason."""
        objective = None if value is None else self.task.packing.unpack(value)
        claim = Claim(engine, kind, objective, way, not reason, reason)
        self.outcome.claims.append(claim)
        self._say(str(claim))

    def _say(self, words: str) -> None:
        logger.debug("%s: claim: %s", self.task.instance.name, words)
        self.outcome.raw_status += f"; {words}"


def _claim(bound: int | None) -> tuple[Kind, int | None]:
    """Return kind and value of a claim: without a bound, that there is no solution."""
    return ("infeasible", None) if bound is None else ("bound", bound)


def wrong(task: Task, outcome: Outcome) -> str | None:
    """Return why the checker refuses a solution; None if it does not."""
    solution = outcome.solution
    if solution is None:
        return None
    if solution.instance != task.instance.name:
        return f"its solution is of instance {shown(solution.instance)}"
    for constraint, sentence in task.problem.violations(task.instance, solution):
        if constraint not in task.without:
            return f"{constraint}: {sentence}"
    return None
