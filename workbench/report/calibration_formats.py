"""A calibration as text for people and as a versioned JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.model.text import counted, one_line
from workbench.report.calibration import Calibration, Compared, Place
from workbench.report.explain import safe
from workbench.report.json_format import SCHEMA_VERSION
from workbench.report.wording import PARTLY_JUDGED


def calibration_lines(run_id: str, calibrations: Sequence[Calibration]) -> Iterator[str]:
    """The calibrations for people."""
    yield f"run {run_id}"
    for each in calibrations:
        yield ""
        yield from _lines(each)


def _lines(each: Calibration) -> Iterator[str]:
    left_out = f", {len(each.unjudged)} more without a score of the judge" if each.unjudged else ""
    yield f"{one_line(each.metric)}: {counted(len(each.compared), 'label')}{left_out}"
    if each.compared:
        yield from _table(each)
        yield f"  agreement  {each.agreement:.1%}"
        yield f"  kappa      {each.why_no_kappa if each.kappa is None else f'{each.kappa:.2f} (Cohen)'}"
        if each.weighted is not None:
            yield f"  weighted   {each.weighted:.2f} (Cohen, by the square of the difference)"
        if each.off_by is not None:
            yield f"  off by     {each.off_by:.2f} on average"
        if partly_judged := sum(compared.missing_samples is not None for compared in each.compared):
            yield f"  samples    {counted(partly_judged, 'verdict')} {PARTLY_JUDGED}"
        for verdict in each.classes:
            quality = each.quality(verdict)
            yield f"  {verdict:<9}  precision {_share(quality.precision)}  recall {_share(quality.recall)}"
    yield f"  {counted(len(each.disagreements), 'disagreement')}"
    for differing in each.disagreements:
        count = differing.missing_samples
        unsure = ", unsure" if differing.unsure else ""
        missing = "" if count is None else f", judged by {count.read} of {count.asked} samples"
        why = f": {safe(differing.rationale)}" if differing.rationale else ""
        said = f"people say {differing.human}, the judge {differing.judge} ({differing.score:.3g}{unsure}{missing})"
        yield f"    {_place_text(differing.place)}: {said}{why}"


def _table(each: Calibration) -> Iterator[str]:
    width = max(6, *(len(verdict) for verdict in each.classes))
    yield f"  {'people / judge':<15}" + "".join(f"  {verdict:>{width}}" for verdict in each.classes)
    for human in each.classes:
        counts = (each.confusion.get((human, judge), 0) for judge in each.classes)
        yield f"  {human:<15}" + "".join(f"  {count:>{width}}" for count in counts)


def calibration_record(run_id: str, calibrations: Sequence[Calibration]) -> Mapping[str, Any]:
    """The calibrations as JSON."""
    return {"schema_version": SCHEMA_VERSION, "run_id": run_id, "criteria": [_record(each) for each in calibrations]}


def _record(each: Calibration) -> Mapping[str, Any]:
    return {
        "name": each.metric,
        "kind": each.kind,
        "labels": len(each.compared),
        "confusion": {
            human: {judge: each.confusion.get((human, judge), 0) for judge in each.classes} for human in each.classes
        },
        "agreement": each.agreement,
        "kappa": each.kappa,
        "reason": each.why_no_kappa,
        "weighted_kappa": each.weighted,
        "off_by": each.off_by,
        "classes": {verdict: each.quality(verdict)._asdict() for verdict in each.classes},
        "disagreements": [_compared_record(differing) for differing in each.disagreements],
        "unjudged": [_place_record(place) for place in each.unjudged],
    }


def _compared_record(each: Compared) -> Mapping[str, Any]:
    count = each.missing_samples
    return {
        **_place_record(each.place),
        "human": each.human,
        "judge": each.judge,
        "score": each.score,
        "unsure": each.unsure,
        "judged_by": None if count is None else {"read": count.read, "asked": count.asked},
        "rationale": each.rationale,
    }


def _place_record(place: Place) -> Mapping[str, Any]:
    return {
        "target": place.case.target,
        "eval_set": place.case.eval_set,
        "eval_id": place.case.eval_id,
        "occurrence": place.case.occurrence,
        "repeat": place.repeat,
        "turn": place.turn,
        "rubric": place.rubric,
    }


def _place_text(place: Place) -> str:
    repeat = f" [{place.repeat + 1}]" if place.repeat else ""
    turn = "" if place.turn is None else f" turn {place.turn}"
    rubric = "" if place.rubric is None else f" {place.rubric}"
    return one_line(f"{place.case}{repeat}{turn}{rubric}")


def _share(share: float | None) -> str:
    return "   -" if share is None else f"{share:.2f}"
