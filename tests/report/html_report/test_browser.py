"""The page in a real browser: opened from disk, used with keys and mouse, given hostile data."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from workbench.model.evalset import EvalCase, Invocation
from workbench.model.results import (
    CaseStatus,
    Failure,
    FailureKind,
    InvocationScore,
    Judgement,
    JudgeSample,
    MetricResult,
    ModelCalls,
    RequestDifference,
    RubricScore,
)
from workbench.model.run_events import MetricSummary, RunSummary
from workbench.model.trace import SIMULATED, Span, SpanKind
from workbench.report.report_formats import html_page
from workbench.report.run_report import ReportedCase, RunReport
from workbench.store.history.history_queries import StoredRun

if TYPE_CHECKING:
    from tests.browser import Page

pytestmark = pytest.mark.needs_chromium

MakeReport = Callable[..., RunReport]
MakeCase = Callable[..., ReportedCase]
MakeInvocation = Callable[..., Invocation]
MakeMetric = Callable[..., MetricResult]
ROWS = ".rows tbody tr[data-place]"
NAMES = ".rows tbody button"


@pytest.fixture
def write_page(tmp_path: Path) -> Callable[..., Path]:
    def write(report: RunReport, comparison: Any = None) -> Path:
        path = tmp_path / "run with blanks #1.html"
        path.write_text(html_page(report, comparison), encoding="utf-8")
        return path

    return write


async def open_case(page: Page, name: str) -> None:
    await page.evaluate(
        f"[...document.querySelectorAll('{NAMES}')].find(found => found.innerText.trim() === {name!r}).click()"
    )
    await page.settle()


async def test_the_page_opens_from_disk_without_any_request(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    path = write_page(make_report(every_status))

    await browser_page.visit(path)
    await open_case(browser_page, "wrong|device")

    assert browser_page.requests == [path.as_uri()]
    assert browser_page.errors == []


async def test_cases_are_filtered_by_text_and_status(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    await browser_page.visit(write_page(make_report(every_status)))
    assert len(await browser_page.texts(NAMES)) == 6

    await browser_page.press("/")
    await browser_page.write("DEVICE")
    assert await browser_page.texts(NAMES) == ["wrong|device", "空", "good"]  # what went wrong comes first
    assert await browser_page.texts("[role=status]") == ["3 of 6 cases"]

    await browser_page.click("[aria-pressed]")  # failed
    assert await browser_page.texts(NAMES) == ["wrong|device"]

    await browser_page.click("[aria-pressed]")
    await browser_page.press("/")
    await browser_page.evaluate("document.activeElement.select()")
    await browser_page.write("nothing like it")
    assert await browser_page.texts(".rows tbody") == ["no case matches the filter"]


async def test_a_heading_sorts_up_and_down_and_not_at_all(
    browser_page: Page,
    write_page: Callable[..., Path],
    make_report: MakeReport,
    make_case: MakeCase,
    make_metric: MakeMetric,
) -> None:
    scores = {"b10": 0.5, "b9": 1.0, "a": 0.25, "none": None}
    cases = [
        make_case(name, CaseStatus.FAILED, metrics=(make_metric("mine", score),)) for name, score in scores.items()
    ]
    await browser_page.visit(write_page(make_report(cases)))
    heading = "[...document.querySelectorAll('.rows thead th')].find(found => found.innerText.startsWith('mine'))"

    orders = []
    for _ in range(3):
        await browser_page.evaluate(f"{heading}.firstChild.focus()")
        await browser_page.press("Enter")
        orders.append((await browser_page.evaluate(f"{heading}.ariaSort"), await browser_page.texts(NAMES)))
    await browser_page.click(".rows thead button", place=1)

    assert orders == [
        ("ascending", ["a", "b10", "b9", "none"]),
        ("descending", ["b9", "b10", "a", "none"]),
        (None, ["b10", "b9", "a", "none"]),
    ]
    assert await browser_page.texts(NAMES) == ["a", "b9", "b10", "none"]


async def test_keys_alone_open_and_leave_cases(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    await browser_page.visit(write_page(make_report(every_status)))

    await browser_page.press("/", "ArrowDown")
    assert await browser_page.focus() == "wrong|device"
    await browser_page.press("Enter")
    assert await browser_page.focus() == "wrong|device"
    assert await browser_page.texts("#case h2") == ["wrong|device"]
    assert await browser_page.evaluate("document.getElementById('overview').hidden") is True
    await browser_page.press("n")
    assert await browser_page.texts("#case h2") == ["boom"]
    await browser_page.press("p", "Escape")
    assert await browser_page.focus() == "wrong|device"
    await browser_page.press("End")
    assert await browser_page.focus() == "stopped"


async def test_single_letters_can_be_switched_off(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    await browser_page.visit(write_page(make_report(every_status)))
    await open_case(browser_page, "good")
    await browser_page.click("#keys summary")
    await browser_page.click("#letters")
    await browser_page.evaluate("document.activeElement.blur()")

    await browser_page.press("n")

    assert await browser_page.texts("#case h2") == ["good"]


async def test_a_click_on_a_row_opens_its_case(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    await browser_page.visit(write_page(make_report(every_status)))

    await browser_page.click(".rows tr[data-place='2'] td")

    assert await browser_page.texts("#case h2") == ["空"]


async def test_expected_and_actual_are_side_by_side(
    browser_page: Page,
    write_page: Callable[..., Path],
    make_report: MakeReport,
    make_case: MakeCase,
    make_invocation: MakeInvocation,
) -> None:
    expected = make_invocation(
        "turn it off", "It is off now.", [("a", {"x": 1}), ("b", {"x": 1, "y": 2}), ("gone", {})]
    )
    actual = make_invocation(
        "turn it off", "It is on now.", [("a", {"x": 1}), ("b", {"x": 1, "y": 3}), ("new", {"z": 0})]
    )
    await browser_page.visit(
        write_page(make_report([make_case("c", CaseStatus.FAILED, expected=expected, actual=actual)]))
    )
    await open_case(browser_page, "c")

    rows = await browser_page.evaluate(
        "[...document.querySelectorAll('.sides tbody tr')].map(row => [...row.cells].map(cell => cell.innerText"
        ".split(/\\s*\\n\\s*/).join(' ').trim()))"
    )
    assert rows == [
        ["user", "turn it off"],
        ["same call", "ƒ a x: 1", "ƒ a x: 1"],
        ["changed call", "ƒ b x: 1 y: 2", "ƒ b x: 1 y: 3"],
        ["missing call", "ƒ gone without arguments", "none"],
        ["extra call", "none", "ƒ new z: 0"],
        ["changed response", "It is off now.", "It is on now."],
    ]
    assert await browser_page.texts("del") == ["y: 2", "ƒ gone", "off"]
    assert await browser_page.texts("ins") == ["y: 3", "ƒ new", "z: 0", "on"]


async def test_a_moved_call_says_where_it_went(
    browser_page: Page,
    write_page: Callable[..., Path],
    make_report: MakeReport,
    make_case: MakeCase,
    make_invocation: MakeInvocation,
) -> None:
    expected = make_invocation(calls=[("a", {}), ("b", {}), ("c", {})])
    actual = make_invocation(calls=[("b", {}), ("c", {}), ("a", {})])
    await browser_page.visit(
        write_page(make_report([make_case("c", CaseStatus.FAILED, expected=expected, actual=actual)]))
    )
    await open_case(browser_page, "c")

    assert await browser_page.texts(".sides tbody th") == [
        "user", "moved call", "same call", "same call", "moved call", "same response",
    ]  # fmt: skip
    assert (await browser_page.texts(".sides .moved td"))[1] == "is call 3"


async def test_a_case_shows_scores_reasons_judges_and_model_calls(
    browser_page: Page,
    write_page: Callable[..., Path],
    make_report: MakeReport,
    make_case: MakeCase,
    make_invocation: MakeInvocation,
    make_metric: MakeMetric,
) -> None:
    judgement = Judgement(
        model="judge-1",
        prompt="Rate it.",
        samples=(JudgeSample(score=0.0, rationale="It shouts."),),
        rubrics=(RubricScore(rubric_id="polite", text="Is it polite?", score=0.0, rationale="Too loud.", yes=1, no=4),),
    )
    metric = make_metric(
        "own", 0.0, 0.5, hint="Look twice.", per_invocation=(InvocationScore(score=0.0, judgement=judgement),)
    )
    difference = RequestDifference(call=2, turn=0, what="instruction", before="Be nice.", now="Be brief.")
    calls = ModelCalls(live=1, replayed=2, difference=difference)
    turn = make_invocation()
    case = make_case("c", CaseStatus.FAILED, expected=turn, actual=turn, metrics=(metric,), model_calls=calls)
    await browser_page.visit(write_page(make_report([case])))
    assert "↺" in (await browser_page.texts(f"{ROWS} td"))[0]
    await open_case(browser_page, "c")

    text = await browser_page.evaluate("document.querySelector('#case').innerText")

    for part in (
        "own: 0.00 < 0.50", "0.50", "Look twice.", "judged by judge-1", "polite: Is it polite?", "1 yes, 4 no",
        "Too loud.", "It shouts.", "2 model calls replayed", "Be nice.", "Be brief.",
    ):  # fmt: skip
        assert part in text


async def test_the_trace_is_a_tree_in_the_order_of_time_with_data(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, make_case: MakeCase
) -> None:
    spans = (
        Span(id="1", kind=SpanKind.AGENT, name="root", start=0.0, end=2.0),
        Span(id="3", parent_id="1", kind=SpanKind.TOOL, name="tool", start=1.0, end=1.5, error="refused",
             request={"room": "hall"}),
        Span(id="2", parent_id="1", kind=SpanKind.MODEL, name="model", start=0.5, end=1.0,
             attributes={SIMULATED: "replayed"}),
        Span(id="4", parent_id="5", name="circle"),
        Span(id="5", parent_id="4", name="of two"),
    )  # fmt: skip
    await browser_page.visit(write_page(make_report([make_case("c", CaseStatus.PASSED, spans=spans)])))
    await open_case(browser_page, "c")

    bars = await browser_page.evaluate(
        "[...document.querySelectorAll('.bar')].map(bar => [parseFloat(bar.style.left), parseFloat(bar.style.width)])"
    )
    steps = await browser_page.texts(".trace tbody tr:not([hidden]) td:first-child")
    await browser_page.click(".trace button", place=2)

    assert steps == ["root", "model ↺ replayed", "tool ✗ failed", "circle", "of two"]
    assert bars == [[0, 100], [25, 25], [50, 25]]
    opened = await browser_page.texts(".trace tbody tr:nth-child(6)")
    assert "refused" in opened[0]
    assert '"room": "hall"' in opened[0]
    assert await browser_page.evaluate("document.querySelectorAll('.trace button')[2].ariaExpanded") == "true"


async def test_failures_and_the_final_state_are_shown(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, make_case: MakeCase,
    make_invocation: MakeInvocation,
) -> None:  # fmt: skip
    failure = Failure(kind=FailureKind.AGENT, message="ValueError: boom", turn=0, traceback="Traceback\n  line 7")
    turn = make_invocation()
    state = make_case("state", CaseStatus.FAILED, expected=turn, actual=turn, final_state={"room": "hall"})
    wanted = EvalCase(eval_id="state", conversation=[turn], final_session_state={"room": "bedroom"})
    cases = [make_case("broken", CaseStatus.ERROR, failure=failure), ReportedCase(state.result, wanted)]
    await browser_page.visit(write_page(make_report(cases)))

    await open_case(browser_page, "broken")
    await browser_page.click("#case summary")
    broken = await browser_page.evaluate("document.querySelector('#case').innerText")
    await browser_page.press("p")

    assert "agent: ValueError: boom" in broken
    assert "line 7" in broken
    assert (await browser_page.texts(".sides"))[-1].split() == [
        "Key",
        "Expected",
        "Actual",
        "room",
        '"bedroom"',
        '"hall"',
    ]


HOSTILE = "</script><script>window.ran=1</script><img src=x onerror='window.ran=1'>\"'`${window.ran=1}\u2028\u202e\x1b"


async def test_hostile_data_run_no_script(
    browser_page: Page,
    write_page: Callable[..., Path],
    make_report: MakeReport,
    make_case: MakeCase,
    make_invocation: MakeInvocation,
    make_metric: MakeMetric,
) -> None:
    judgement = Judgement(
        model=HOSTILE,
        prompt=HOSTILE,
        samples=(JudgeSample(score=0.0, label=HOSTILE, rationale=HOSTILE, reply=HOSTILE),),
        rubrics=(RubricScore(rubric_id=HOSTILE, text=HOSTILE, score=0.0, rationale=HOSTILE),),
    )
    metrics = tuple(
        make_metric(name, 0.0, reason=HOSTILE, per_invocation=(InvocationScore(score=0.0, judgement=judgement),))
        for name in (HOSTILE, "__proto__", "constructor")
    )
    turn = make_invocation(HOSTILE, HOSTILE, [(HOSTILE, {HOSTILE: HOSTILE, "__proto__": HOSTILE})])
    other = make_invocation(HOSTILE, f"{HOSTILE} b", [(HOSTILE, {HOSTILE: "c"})])
    spans = (
        Span(id=HOSTILE, name=HOSTILE, error=HOSTILE, request={HOSTILE: HOSTILE}, attributes={SIMULATED: HOSTILE}),
    )
    difference = RequestDifference(call=1, turn=0, what=HOSTILE, before=HOSTILE, now="")
    case = make_case(
        HOSTILE, CaseStatus.FAILED, expected=turn, actual=other, metrics=metrics, spans=spans, eval_set=HOSTILE,
        model_calls=ModelCalls(live=1, difference=difference),
    )  # fmt: skip
    summary = {HOSTILE: MetricSummary(mean=0.0, std=None, scored=1, total=1)}
    report = make_report([case], metrics=summary, command=HOSTILE)
    runs = [
        StoredRun(run_id=f"{number}{HOSTILE}", root="/", started_at=datetime(2026, 11, number, tzinfo=UTC),
                  summary=RunSummary(total=1, failed=1, metrics=summary))
        for number in (1, 2)
    ]  # fmt: skip
    report = RunReport(**{**vars(report), "run_id": HOSTILE, "earlier_runs": runs})
    key = {"target": "home", "eval_set": HOSTILE, "eval_id": HOSTILE, "occurrence": 0}
    scores = {"status": "FAILED", "scores": {HOSTILE: 0.5, "constructor": 1.0}}
    change = {**key, "change": "regression", "reason": HOSTILE, "before": scores, "after": {**scores, "scores": {}}}
    comparison = {
        "before": {"run_id": HOSTILE}, "judged_differently": [HOSTILE], "counts": {"regression": 1, "gone": 1},
        "metrics": {HOSTILE: {"before": 1.0, "after": 0.0, "difference": -1.0, "cases": 1}},
        "cases": [{**change, "asks_otherwise": True, "judged_otherwise": True}, {**change, "change": "gone"}],
    }  # fmt: skip
    path = write_page(report, comparison)

    await browser_page.visit(path)
    await browser_page.press("/")
    await browser_page.write("</script>")
    await browser_page.click(f"{ROWS} td")
    unfold = "document.querySelectorAll('details').forEach(found => { found.open = true })"
    for _ in range(3):
        await browser_page.evaluate(unfold)
        await browser_page.settle()
    await browser_page.evaluate("document.querySelectorAll('.trace button').forEach(found => found.click())")
    await browser_page.settle()
    text = await browser_page.evaluate("document.body.innerText")

    assert await browser_page.evaluate("window.ran") is None
    assert await browser_page.evaluate("document.querySelectorAll('img, script').length") == 2
    assert browser_page.errors == []
    assert browser_page.requests == [path.as_uri()]
    assert "<img src=x onerror='window.ran=1'>" in text
    assert not set(text) & {"\x1b", "\u202e"}
    assert "\\u202e\u241b" in text


async def test_a_comparison_is_a_column_a_filter_and_a_summary(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, make_case: MakeCase
) -> None:
    cases = [make_case("worse", CaseStatus.FAILED), make_case("same", CaseStatus.PASSED)]
    verdict = {"status": "PASSED", "scores": {"mine": 1.0}}
    record = {
        "before": {"run_id": "20261120-1"}, "judged_differently": ["mine is new"],
        "counts": {"regression": 1, "same": 1, "fix": 0}, "metrics": {},
        "cases": [
            {"target": "home", "eval_set": "sets/light.evalset.json", "eval_id": name, "occurrence": 0,
             "change": change, "reason": None, "asks_otherwise": False, "judged_otherwise": True, "before": verdict,
             "after": {"status": status, "scores": {"mine": 0.5}}}
            for name, change, status in (("worse", "regression", "FAILED"), ("same", "same", "PASSED"))
        ],
    }  # fmt: skip
    await browser_page.visit(write_page(make_report(cases), record))

    assert "▼ regression" in await browser_page.texts(f"{ROWS} td")
    assert "▼ 1 regression, = 1 same" in (await browser_page.texts("main"))[0]
    await browser_page.evaluate(
        "(() => { const list = [...document.querySelectorAll('select')].pop(); list.selectedIndex = 1;"
        " list.dispatchEvent(new Event('change')); })()"
    )
    assert await browser_page.texts(NAMES) == ["worse"]
    await open_case(browser_page, "worse")
    assert (
        "passed in 20261120-1, failed now (the expectations or criteria changed"
        in (await browser_page.texts("#case"))[0]
    )


async def test_a_small_window_cuts_no_column_and_has_those_of_the_metrics_that_failed(
    browser_page: Page,
    write_page: Callable[..., Path],
    make_report: MakeReport,
    make_case: MakeCase,
    make_metric: MakeMetric,
) -> None:
    metrics = tuple(make_metric(f"metric_{number}", 0.5 if number == 8 else 1.0) for number in range(9))
    sets = ("sets/light.evalset.json", "sets/other.evalset.json")
    cases = [make_case("one", CaseStatus.FAILED, metrics=metrics, eval_set=name) for name in sets]
    window = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    await browser_page.call("Emulation.setDeviceMetricsOverride", **window)

    await browser_page.visit(write_page(make_report(cases)))

    headings = [text.replace("\n", "") for text in await browser_page.texts(".rows th[scope=col]")]
    assert headings[:4] == ["Status", "Case", "Why", "Set"]
    assert "metric_8" in headings
    assert headings[-1] == "Time"
    rows = "document.querySelector('.rows')"
    assert await browser_page.evaluate(f"{rows}.scrollWidth <= {rows}.clientWidth")
    assert await browser_page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def test_the_last_runs_are_plotted_with_a_table(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    runs = [
        StoredRun(run_id=f"run-{day}", root="/", started_at=datetime(2026, 11, day, tzinfo=UTC),
                  summary=RunSummary(total=4, passed=day, failed=4 - day))
        for day in (1, 2, 3)
    ]  # fmt: skip
    await browser_page.visit(write_page(make_report(every_status, earlier_runs=runs)))

    labels = await browser_page.evaluate("[...document.querySelectorAll('svg')].map(image => image.ariaLabel)")

    assert labels == ["Passed of judged cases: 0.25 at first, 0.75 at last, 0.25 to 0.75"]
    await browser_page.evaluate("[...document.querySelectorAll('main details')].pop().open = true")
    await browser_page.settle()
    assert (await browser_page.texts("[aria-label=Runs] tbody tr"))[2].split() == ["run-3", "4", "0.75"]


# Contrast of each text with the background behind it, as WCAG 2 defines it.
CONTRAST = """
(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (parts(colour)[3] !== 0) return colour;
    }
  };
  const worst = {};
  for (const element of document.querySelectorAll('body *')) {
    const isShown = element.checkVisibility() && [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!isShown) continue;
    const style = getComputedStyle(element);
    const ink = element.namespaceURI.endsWith('svg') ? style.fill : style.color;
    const [one, other] = [light(ink), light(behind(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) worst[element.tagName + '.' + element.getAttribute('class')] = ratio;
  }
  return worst;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_texts_have_contrast_and_the_theme_follows_system_and_switch(
    scheme: str,
    browser_page: Page,
    write_page: Callable[..., Path],
    make_report: MakeReport,
    every_status: list[ReportedCase],
) -> None:
    other = {"light": "dark", "dark": "light"}[scheme]
    await browser_page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    await browser_page.visit(write_page(make_report(every_status)))
    background = "getComputedStyle(document.body).backgroundColor"
    followed = await browser_page.evaluate(background)

    assert await browser_page.evaluate(CONTRAST) == {}
    await open_case(browser_page, "wrong|device")
    assert await browser_page.evaluate(CONTRAST) == {}
    while await browser_page.texts("#theme") != [f"Theme: {other}"]:
        await browser_page.click("#theme button")

    assert (followed == "rgb(255, 255, 255)") is (scheme == "light")
    assert await browser_page.evaluate(background) != followed
    assert await browser_page.evaluate(CONTRAST) == {}


async def test_the_page_has_landmarks_names_and_headings_in_order(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    await browser_page.visit(write_page(make_report(every_status)))
    await open_case(browser_page, "wrong|device")

    tree = (await browser_page.call("Accessibility.getFullAXTree"))["nodes"]
    shown = [node for node in tree if not node["ignored"]]
    roles = {node["role"]["value"] for node in shown}
    levels = await browser_page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4')].filter(h => h.checkVisibility()).map(h => Number(h.tagName[1]))"
    )

    assert {"banner", "main", "navigation", "contentinfo", "article", "table"} <= roles
    assert [
        node for node in shown if node["role"]["value"] in ("button", "textbox") and not node["name"]["value"]
    ] == []
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


async def test_without_javascript_the_summary_and_a_note_are_shown(
    browser_page: Page, write_page: Callable[..., Path], make_report: MakeReport, every_status: list[ReportedCase]
) -> None:
    await browser_page.call("Emulation.setScriptExecutionDisabled", value=True)
    await browser_page.call("Page.navigate", url=write_page(make_report(every_status)).as_uri())
    tree: list[Any] = []
    while not any(node.get("name", {}).get("value") == "Summary" for node in tree):
        tree = (await browser_page.call("Accessibility.getFullAXTree"))["nodes"]

    text = " ".join(node["name"]["value"] for node in tree if node["role"]["value"] == "StaticText")

    assert "need JavaScript" in text
    assert "not evaluated" in text


async def test_ten_thousand_cases_are_usable(
    browser_page: Page,
    write_page: Callable[..., Path],
    make_report: MakeReport,
    make_case: MakeCase,
    make_invocation: MakeInvocation,
    make_metric: MakeMetric,
    record_property: Callable[[str, object], None],
) -> None:
    turn, metrics = make_invocation(calls=[("f", {"x": 1})]), tuple(make_metric(f"metric_{n}", 1.0) for n in range(6))
    cases = [
        make_case(f"case_{number:05}", CaseStatus.PASSED, expected=turn, actual=turn, metrics=metrics)
        for number in range(10_000)
    ]
    path = write_page(make_report(cases))

    record_property("seconds until 10,000 cases are shown", await browser_page.visit(path))
    assert await browser_page.evaluate(f"document.querySelectorAll('{ROWS}').length") < 100
    await browser_page.press("/", "ArrowDown", "End")
    assert await browser_page.focus() == "case_09999"
    await browser_page.press("/")
    await browser_page.write("case_0777")
    assert await browser_page.texts("[role=status]") == ["10 of 10,000 cases"]
    await browser_page.press("ArrowDown", "Enter")
    assert await browser_page.texts("#case h2") == ["case_07770"]
