"""Calibration: judges compared with labels that people gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, NamedTuple

from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseResult,
    InvocationScore,
    Judgement,
    MetricResult,
    SampleCount,
    cohen_kappa,
    is_unsure,
    observed_agreement,
    weighted_kappa,
)
from workbench.model.text import one_line, pluralise, suggest_name
from workbench.report.report_formats import SCHEMA_VERSION
from workbench.report.run_report import PARTLY_JUDGED, find_reason, name_repeat
from workbench.report.significance import Interval, bootstrap_statistic, format_interval
from workbench.report.text_report import make_safe
from workbench.store.datasets.dataset_lint import Label, LabelValue
from workbench.store.datasets.dataset_rows import ValueFault
from workbench.store.errors import StoreError, raise_all

# Labels: verdicts, choices or ratings, checked against the possible scores of the judge.

Kind = Literal["verdict", "choice", "rating"]

PASS, FAIL = "pass", "fail"
_VERDICTS = {
    **dict.fromkeys(("pass", "passed", "passes", "valid", "yes", "true", "good", "correct", "ok", "safe"), PASS),
    **dict.fromkeys(("fail", "failed", "fails", "invalid", "no", "false", "bad", "incorrect", "unsafe"), FAIL),
}
_CHOICES = {"baseline": 0.0, "tie": 0.5, "same": 0.5, "candidate": 1.0}
NAMES_OF_CHOICES = {0.0: "BASELINE", 0.5: "TIE", 1.0: "CANDIDATE"}


class Bounds(NamedTuple):
    """The lowest and the highest possible score of a judge; None: no bound."""

    lowest: float | None
    highest: float | None

    def contains(self, score: float) -> bool:
        is_low = self.lowest is not None and score < self.lowest
        return not is_low and (self.highest is None or score <= self.highest)

    def __str__(self) -> str:
        """Return a text such as `from 1 to 5`."""
        low = "" if self.lowest is None else f"from {self.lowest:g}"
        high = "" if self.highest is None else f"{' ' if low else 'up '}to {self.highest:g}"
        return f"{low}{high}"


def find_bounds(judgements: Sequence[Judgement]) -> Bounds:
    """Return the lowest and the highest possible score of these judgements."""
    lows, highs = [each.lowest for each in judgements], [each.best for each in judgements]
    return Bounds(
        None if None in lows else min(low for low in lows if low is not None),
        None if None in highs else max(high for high in highs if high is not None),
    )


def detect_kind(labels: Sequence[Label], bounds: Bounds) -> Kind:
    """Detect the kind of the labels of a criterion: by the first known word, else by the possible scores."""
    words = [label.label.casefold() for label in labels if isinstance(label.label, str)]
    first_word = next((word for word in words if word in _VERDICTS or word in _CHOICES), None)
    if first_word is not None:
        return "choice" if first_word in _CHOICES else "verdict"
    numbers = {label.label for label in labels if isinstance(label.label, float) and bounds.contains(label.label)}
    return "rating" if bounds.highest != 1.0 or not numbers <= {0.0, 1.0} else "verdict"


def validate_label(value: LabelValue, kind: Kind, bounds: Bounds, *, name: str) -> str | None:
    """Return what was expected instead of an invalid label; None if the label is valid."""
    rule = "like the other labels of this criterion"
    if kind == "rating":
        if isinstance(value, str):
            return f"a number, {rule}"
        return None if bounds.contains(value) else f"a rating {bounds}, the scale of {name}"
    word = value.casefold() if isinstance(value, str) else None
    if word is not None and word not in _VERDICTS and word not in _CHOICES:
        return f"a number, or one of {', '.join((*_VERDICTS, *_CHOICES))}"
    if kind == "choice":
        return None if word in _CHOICES else f"CANDIDATE, BASELINE or TIE, {rule}"
    if word in _VERDICTS or value in (0.0, 1.0):
        return None
    return f"pass or fail, {rule}" if bounds.highest != 1.0 else f"pass or fail (also 1 or 0), as {name} gives them"


def normalise_label(value: LabelValue, kind: Kind) -> str:
    """Return the class of a valid label."""
    if isinstance(value, str):
        word = value.casefold()
        return NAMES_OF_CHOICES[_CHOICES[word]] if word in _CHOICES else _VERDICTS[word]
    if kind == "verdict":
        return PASS if value else FAIL
    return f"{value:g}"


def label_text(value: LabelValue) -> str:
    return repr(value) if isinstance(value, str) else f"{value:g}"


# Comparison of a judge with labels: confusion, precision and recall, kappa, disagreements.


class Place(NamedTuple):
    """The subject of a label. `turn` counts from 1; None is the whole case."""

    case: CaseKey
    repeat: int
    turn: int | None
    rubric: str | None


@dataclass(frozen=True, kw_only=True)
class LabelComparison:
    """A label and the verdict of the judge.

    `unsure`: samples of the judge disagree. `missing_samples`: the number of readable samples, if some are missing.
    """

    place: Place
    human: str
    judge: str
    score: float
    rationale: str
    unsure: bool
    missing_samples: SampleCount | None


class ClassQuality(NamedTuple):
    """Precision and recall of one verdict. None: the judge never gave it, or no label has it."""

    precision: float | None
    recall: float | None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The comparison of a judge with people for one criterion.

    `classes` are all verdicts, in order. `unjudged` have a label, but no score of the judge. For ratings, `weighted` is
    the kappa in which larger differences weigh more, and `mean_error` the mean absolute difference of the scores.
    """

    metric: str
    kind: Kind
    classes: Sequence[str]
    comparisons: Sequence[LabelComparison]
    unjudged: Sequence[Place]
    weighted: float | None = None
    mean_error: float | None = None

    @property
    def confusion(self) -> Mapping[tuple[str, str], int]:
        """The number of each pair of verdicts, the human's first."""
        return Counter(self._pairs)

    @property
    def agreement(self) -> float | None:
        """The share of labels on which the judge agrees."""
        return observed_agreement(self._pairs)

    @property
    def agreement_interval(self) -> Interval | None:
        """The 95 % interval of the agreement; None for fewer than 10 cases, or if all or none agree."""
        return bootstrap_statistic(self._pairs_by_case, observed_agreement)

    @property
    def kappa_interval(self) -> Interval | None:
        """The 95 % interval of kappa; None for fewer than 10 cases, or if kappa is undefined."""
        return bootstrap_statistic(self._pairs_by_case, cohen_kappa)

    @property
    def _pairs(self) -> Sequence[tuple[str, str]]:
        return [(each.human, each.judge) for each in self.comparisons]

    @property
    def _pairs_by_case(self) -> Sequence[Sequence[tuple[str, str]]]:
        by_case: dict[CaseKey, list[tuple[str, str]]] = {}
        for each in self.comparisons:
            by_case.setdefault(each.place.case, []).append((each.human, each.judge))
        return [*by_case.values()]

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa; None if it is undefined."""
        return cohen_kappa(self._pairs)

    @property
    def no_kappa_reason(self) -> str | None:
        """Why kappa is undefined; None if it is defined."""
        if self.kappa is not None:
            return None
        return "labels and judge have only one verdict" if self.comparisons else "the judge has no score for any label"

    @property
    def disagreements(self) -> Sequence[LabelComparison]:
        return [each for each in self.comparisons if each.human != each.judge]

    def quality(self, verdict: str) -> ClassQuality:
        """Compute precision and recall of one verdict."""
        both_count = self.confusion.get((verdict, verdict), 0)
        judge_count = sum(each.judge == verdict for each in self.comparisons)
        label_count = sum(each.human == verdict for each in self.comparisons)
        return ClassQuality(
            both_count / judge_count if judge_count else None, both_count / label_count if label_count else None
        )


class _JudgeOpinion(NamedTuple):
    """The verdict of the judge on a place. `score` is None if it could not judge."""

    score: float | None
    passes: bool | None
    rationale: str
    unsure: bool
    scores: Sequence[float]  # of the samples
    missing_samples: SampleCount | None = None


_NO_OPINION = _JudgeOpinion(None, None, "", False, ())


class _Pair(NamedTuple):
    label: Label
    place: Place
    opinion: _JudgeOpinion


def calibrate(
    labels: Sequence[Label], results: Sequence[CaseResult], *, criterion: str | None, run_id: str
) -> list[Calibration]:
    """Compare the judges of a run with labels. `criterion` is the default of labels that name none.

    Raises StoreError with every label whose subject is not in the run, or whose value is invalid.
    """
    finder = _Finder(results, criterion=criterion, run_id=run_id)
    pairs: dict[str, list[_Pair]] = {}
    rows: dict[tuple[str, Place], int] = {}
    errors: list[StoreError] = []
    for label in labels:
        try:
            name = finder.find_criterion(label)
            label_pairs = [_Pair(label, *each) for each in finder.find_opinions(label, name)]
            for pair in label_pairs:
                _check_duplicate(label, earlier=rows.setdefault((name, pair.place), label.row))
        except StoreError as error:
            errors.append(error)
            continue
        pairs.setdefault(name, []).extend(label_pairs)
    kinds = {
        name: detect_kind([pair.label for pair in label_pairs], finder.bounds[name])
        for name, label_pairs in pairs.items()
    }
    for name, label_pairs in pairs.items():
        for label in dict.fromkeys(pair.label for pair in label_pairs):
            expected = validate_label(label.label, kinds[name], finder.bounds[name], name=name)
            if expected is not None:
                errors.append(label.error(ValueFault("label", label_text(label.label), expected)))
    raise_all(sorted(errors, key=lambda error: (error.line or 0, error.column or 0)))
    return [_build_calibration(name, label_pairs, kind=kinds[name]) for name, label_pairs in pairs.items()]


def _check_duplicate(label: Label, *, earlier: int) -> None:
    if earlier != label.row:
        raise label.error(
            ValueFault("label", f"a duplicate of the label in row {earlier}", "one label for each subject")
        )


class _Finder:
    """Finds the verdicts of the judges of a run on the subjects of labels."""

    def __init__(self, results: Sequence[CaseResult], *, criterion: str | None, run_id: str) -> None:
        self._run = f"run {run_id}"
        self._criterion = criterion
        self._by_id: dict[str, list[CaseResult]] = {}
        judgements: dict[str, list[Judgement]] = {}
        for result in results:
            self._by_id.setdefault(result.case.eval_id, []).append(result)
            for metric in result.metrics:
                metric_judgements = [turn.judgement for turn in metric.per_invocation if turn.judgement is not None]
                if metric_judgements:
                    judgements.setdefault(metric.name, []).extend(metric_judgements)
        self._criteria = tuple(judgements)
        self.bounds = {name: find_bounds(metric_judgements) for name, metric_judgements in judgements.items()}
        """The lowest and the highest score by each criterion."""

    def find_criterion(self, label: Label) -> str:
        """Return the criterion of a label. Raises StoreError."""
        if label.criterion is not None and self._criterion not in (None, label.criterion):
            expected = f"{self._criterion!r}, as given by --criterion, or nothing"
            raise label.error(ValueFault("criterion", repr(label.criterion), expected))
        name = label.criterion or self._criterion
        if name is None and len(self._criteria) == 1:
            return self._criteria[0]
        known_criteria = ", ".join(self._criteria) or f"a run with judge models; {self._run} has none"
        if name is None:
            raise label.error(
                ValueFault("criterion", "nothing", f"one of {known_criteria}" if self._criteria else known_criteria)
            )
        if name not in self._criteria:
            found = f"{name!r}, which no model judged in {self._run}"
            expected = (
                f"one of {known_criteria}{suggest_name(name, self._criteria)}" if self._criteria else known_criteria
            )
            raise label.error(ValueFault("criterion", found, expected))
        return name

    def find_opinions(self, label: Label, criterion: str) -> Iterator[tuple[Place, _JudgeOpinion]]:
        """Yield the verdict of the judge in every repeat to which the label applies. Raises StoreError."""
        results = self._find_results(label)
        for result in results:
            metric = next((each for each in result.metrics if each.name == criterion), None)
            place = Place(result.case, result.repeat, label.turn, label.rubric)
            if metric is None:
                yield place, _NO_OPINION
                continue
            number = _find_turn(label, metric)
            if number is None:
                if label.rubric is not None:
                    raise label.error(ValueFault("turn", "nothing", "the turn in which the rubric was judged"))
                yield place, _read_case_opinion(metric)
                continue
            turn = metric.per_invocation[number]
            place = place._replace(turn=number + 1)
            yield (
                place,
                _read_rubric_opinion(label, turn) if label.rubric is not None else _read_turn_opinion(turn, metric),
            )

    def _find_results(self, label: Label) -> Sequence[CaseResult]:
        results = self._by_id.get(label.eval_id, [])
        if not results:
            expected = f"the id of one of its cases{suggest_name(label.eval_id, self._by_id)}"
            raise label.error(ValueFault("eval_id", f"{label.eval_id!r}, which {self._run} does not have", expected))
        if label.eval_set is not None:
            names = {result.case.eval_set for result in results}
            results = [result for result in results if result.case.eval_set == label.eval_set]
            if not results:
                raise label.error(ValueFault("eval_set", repr(label.eval_set), f"one of {', '.join(sorted(names))}"))
        if len({result.case for result in results}) > 1:
            raise label.error(
                ValueFault("eval_id", f"{label.eval_id!r}, which several eval sets have", "the eval set in `eval_set`")
            )
        if label.repeat is None:
            return results
        of_repeat = [result for result in results if result.repeat == label.repeat - 1]
        if not of_repeat:
            raise label.error(ValueFault("repeat", str(label.repeat), f"a number from 1 to {len(results)}"))
        return of_repeat


def _find_turn(label: Label, metric: MetricResult) -> int | None:
    """Return the turn of a label, from 0; None for a label on the whole case."""
    turns = metric.per_invocation
    if label.turn is not None:
        if label.turn > len(turns):
            raise label.error(ValueFault("turn", str(label.turn), f"a number from 1 to {len(turns)}"))
        return label.turn - 1
    judged_turns = [number for number, turn in enumerate(turns) if turn.judgement is not None]
    return judged_turns[0] if len(judged_turns) == 1 else None


def _read_case_opinion(metric: MetricResult) -> _JudgeOpinion:
    turns = [turn for turn in metric.per_invocation if turn.judgement is not None]
    best = max((turn.judgement.best or 0.0 for turn in turns if turn.judgement is not None), default=1.0)
    passes = None if metric.score is None else metric.score >= (best if metric.threshold is None else metric.threshold)
    lowest = min(turns, key=lambda turn: turn.score if turn.score is not None else best, default=None)
    rationale = "" if lowest is None else _find_rationale(lowest)
    scores = [turn.score for turn in turns if turn.score is not None]
    return _JudgeOpinion(metric.score, passes, rationale, is_unsure(metric), scores, metric.missing_samples)


def _read_turn_opinion(turn: InvocationScore, metric: MetricResult) -> _JudgeOpinion:
    judgement = turn.judgement
    if turn.score is None or judgement is None:
        return _NO_OPINION
    enough = judgement.best if metric.threshold is None else metric.threshold
    passes = None if enough is None else turn.score >= enough
    scores = [sample.score for sample in judgement.samples if sample.score is not None]
    turn_metric = metric.model_copy(update={"per_invocation": (turn,)})
    return _JudgeOpinion(
        turn.score, passes, _find_rationale(turn), is_unsure(turn_metric), scores, turn_metric.missing_samples
    )


def _read_rubric_opinion(label: Label, turn: InvocationScore) -> _JudgeOpinion:
    """Read the verdict on a rubric. There is none if the turn has no score, as below the quorum."""
    rubrics = {rubric.rubric_id: rubric for rubric in (turn.judgement.rubrics if turn.judgement is not None else ())}
    rubric = rubrics.get(label.rubric or "")
    if rubric is None:
        expected = f"one of {', '.join(rubrics)}" if rubrics else "no rubric, because none was judged in this turn"
        raise label.error(ValueFault("rubric", repr(label.rubric), expected))
    if turn.score is None or turn.judgement is None:
        return _NO_OPINION
    readable, requested = rubric.yes + rubric.no, len(turn.judgement.samples)
    missing_samples = SampleCount(readable, requested, label.turn or 1) if readable < requested else None
    return _JudgeOpinion(
        rubric.score, rubric.score == 1.0, rubric.rationale, 0 < rubric.yes < readable, (), missing_samples
    )


def _find_rationale(turn: InvocationScore) -> str:
    if turn.judgement is None or turn.score is None:
        return ""
    unmet = [rubric.rationale for rubric in turn.judgement.rubrics if rubric.score == 0.0 and rubric.rationale]
    return "; ".join(unmet) if turn.judgement.rubrics else find_reason(turn.judgement, turn.score)


def _build_calibration(name: str, pairs: Sequence[_Pair], *, kind: Kind) -> Calibration:
    values = [pair.label.label for pair in pairs if isinstance(pair.label.label, float)] if kind == "rating" else []
    ratings = sorted({*values, *(score for pair in pairs for score in pair.opinion.scores)})
    comparisons: list[LabelComparison] = []
    unjudged: list[Place] = []
    for label, place, opinion in pairs:
        human = normalise_label(label.label, kind)
        if opinion.score is None or (kind == "verdict" and opinion.passes is None):
            unjudged.append(place)
            continue
        judge = _classify_score(opinion.score, opinion.passes, kind, ratings)
        comparisons.append(
            LabelComparison(
                place=place,
                human=human,
                judge=judge,
                score=opinion.score,
                rationale=opinion.rationale,
                unsure=opinion.unsure,
                missing_samples=opinion.missing_samples,
            )
        )
    return Calibration(
        metric=name,
        kind=kind,
        classes=_list_classes(kind, comparisons),
        comparisons=comparisons,
        unjudged=unjudged,
        weighted=weighted_kappa([(float(each.human), float(each.judge)) for each in comparisons])
        if kind == "rating"
        else None,
        mean_error=fmean(abs(float(each.human) - each.score) for each in comparisons)
        if kind == "rating" and comparisons
        else None,
    )


def _classify_score(score: float, passes: bool | None, kind: Kind, ratings: Sequence[float]) -> str:
    if kind == "verdict":
        return PASS if passes else FAIL
    if kind == "choice":
        return NAMES_OF_CHOICES[0.5 if 0.0 < score < 1.0 else score]
    return f"{min(ratings, key=lambda rating: (abs(rating - score), rating)):g}"


def _list_classes(kind: Kind, comparisons: Sequence[LabelComparison]) -> Sequence[str]:
    if kind == "verdict":
        return (FAIL, PASS)
    if kind == "choice":
        return tuple(NAMES_OF_CHOICES.values())
    return sorted({verdict for each in comparisons for verdict in (each.human, each.judge)}, key=float)


# Calibrations as text and as a versioned JSON document.


def calibration_lines(run_id: str, calibrations: Sequence[Calibration]) -> Iterator[str]:
    yield f"run {run_id}"
    for each in calibrations:
        yield ""
        yield from _lines(each)


def _lines(calibration: Calibration) -> Iterator[str]:
    unjudged = f", {len(calibration.unjudged)} more without a judge score" if calibration.unjudged else ""
    yield f"{one_line(calibration.metric)}: {pluralise(len(calibration.comparisons), 'label')}{unjudged}"
    if calibration.comparisons:
        yield from _table_lines(calibration)
        yield f"  agreement  {calibration.agreement:.1%}{format_interval(calibration.agreement_interval, '.0%')}"
        kappa = calibration.no_kappa_reason if calibration.kappa is None else f"{calibration.kappa:.2f} (Cohen)"
        yield f"  kappa      {kappa}{format_interval(calibration.kappa_interval, '.2f')}"
        if calibration.weighted is not None:
            yield f"  weighted   {calibration.weighted:.2f} (Cohen, by the square of the difference)"
        if calibration.mean_error is not None:
            yield f"  off by     {calibration.mean_error:.2f} on average"
        if partly_judged := sum(comparison.missing_samples is not None for comparison in calibration.comparisons):
            yield f"  samples    {pluralise(partly_judged, 'verdict')} {PARTLY_JUDGED}"
        for verdict in calibration.classes:
            quality = calibration.quality(verdict)
            yield f"  {verdict:<9}  precision {_share_text(quality.precision)}  recall {_share_text(quality.recall)}"
    yield f"  {pluralise(len(calibration.disagreements), 'disagreement')}"
    for disagreement in calibration.disagreements:
        count = disagreement.missing_samples
        unsure_note = ", unsure" if disagreement.unsure else ""
        samples_note = "" if count is None else f", judged by {count.readable} of {count.requested} samples"
        reason = f": {make_safe(disagreement.rationale)}" if disagreement.rationale else ""
        score = f"{disagreement.score:.3g}{unsure_note}{samples_note}"
        verdicts = f"label {disagreement.human}, judge {disagreement.judge} ({score})"
        yield f"    {_place_text(disagreement.place)}: {verdicts}{reason}"


def _table_lines(calibration: Calibration) -> Iterator[str]:
    width = max(6, *(len(verdict) for verdict in calibration.classes))
    yield f"  {'people / judge':<15}" + "".join(f"  {verdict:>{width}}" for verdict in calibration.classes)
    for human in calibration.classes:
        counts = (calibration.confusion.get((human, judge), 0) for judge in calibration.classes)
        yield f"  {human:<15}" + "".join(f"  {count:>{width}}" for count in counts)


def calibration_record(run_id: str, calibrations: Sequence[Calibration]) -> Mapping[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "run_id": run_id, "criteria": [_record(each) for each in calibrations]}


def _record(calibration: Calibration) -> Mapping[str, Any]:
    return {
        "name": calibration.metric,
        "kind": calibration.kind,
        "labels": len(calibration.comparisons),
        "confusion": {
            human: {judge: calibration.confusion.get((human, judge), 0) for judge in calibration.classes}
            for human in calibration.classes
        },
        "agreement": calibration.agreement,
        "agreement_interval": calibration.agreement_interval,
        "kappa": calibration.kappa,
        "kappa_interval": calibration.kappa_interval,
        "reason": calibration.no_kappa_reason,
        "weighted_kappa": calibration.weighted,
        "off_by": calibration.mean_error,
        "classes": {verdict: calibration.quality(verdict)._asdict() for verdict in calibration.classes},
        "disagreements": [_compared_record(disagreement) for disagreement in calibration.disagreements],
        "unjudged": [_place_record(place) for place in calibration.unjudged],
    }


def _compared_record(comparison: LabelComparison) -> Mapping[str, Any]:
    count = comparison.missing_samples
    return {
        **_place_record(comparison.place),
        "human": comparison.human,
        "judge": comparison.judge,
        "score": comparison.score,
        "unsure": comparison.unsure,
        "judged_by": None if count is None else {"read": count.readable, "asked": count.requested},
        "rationale": comparison.rationale,
    }


def _place_record(place: Place) -> Mapping[str, Any]:
    return {
        **place.case.model_dump(),
        "repeat": place.repeat,
        "turn": place.turn,
        "rubric": place.rubric,
    }


def _place_text(place: Place) -> str:
    turn = "" if place.turn is None else f" turn {place.turn}"
    rubric = "" if place.rubric is None else f" {place.rubric}"
    return one_line(f"{name_repeat(place.case, place.repeat)}{turn}{rubric}")


def _share_text(share: float | None) -> str:
    return "   -" if share is None else f"{share:.2f}"
