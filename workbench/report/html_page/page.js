"use strict";

/* The program of the HTML report. Text of the run enters the page only through `text`, as text and never as markup. */

(() => {
  const run = JSON.parse(document.getElementById("data").textContent);
  const cases = run.cases;
  // A failure that does not count is a status of its own here.
  for (const item of cases) {
    if (item.status === "FAILED" && item.quarantine && !item.quarantine.is_expired) item.status = "QUARANTINED";
  }
  const comparison = run.comparison;

  const SYMBOLS = {
    PASSED: "✓",
    FAILED: "✗",
    QUARANTINED: "⊘",
    ERROR: "!",
    NOT_EVALUATED: "?",
    UNDEFINED: "?",
    INFORMATIONAL: "i",
  };
  const CHANGES = { regression: "▼", flaky: "~", fix: "▲", other: "±", new: "+", gone: "-", same: "=" };
  const PLURALS = { regression: "regressions", fix: "fixes" };
  const STATUSES = ["FAILED", "ERROR", "NOT_EVALUATED", "QUARANTINED", "PASSED", "SKIPPED", "CANCELLED"];

  // Elements and text.

  /* Characters that are invisible or reorder text; the report shows their codes. */
  const ODD =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\u3164\ufeff\uffa0]/g;

  function neutralise(value) {
    return String(value)
      .replace(/\r\n/g, "\n")
      .replace(ODD, (found) => {
        const code = found.charCodeAt(0);
        if (code < 0x20) return String.fromCharCode(0x2400 + code);
        return code === 0x7f ? "\u2421" : `\\u${code.toString(16).padStart(4, "0")}`;
      });
  }

  const text = (value) => document.createTextNode(neutralise(value));

  /* Make an element. `attributes` are names of this program; their values and the children may be text of the run. */
  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "click") element.addEventListener("click", value);
      else element.setAttribute(name, value === true ? "" : neutralise(value));
    }
    for (const child of children.flat()) {
      if (child === null || child === undefined || child === "") continue;
      element.append(child instanceof Node ? child : text(child));
    }
    return element;
  }

  const button = (label, click, attributes) => make("button", { type: "button", click, ...attributes }, label);
  const row = (...cells) => make("tr", {}, ...cells);
  const cell = (value, attributes) => make("td", attributes, value);
  const heading = (value, attributes) => make("th", { scope: "col", ...attributes }, value);

  function table(attributes, headings, rows) {
    return make("table", attributes, make("thead", {}, row(...headings)), make("tbody", {}, ...rows));
  }

  /* Make a table that scrolls in its own box. */
  function box(label, headings, rows, more = "") {
    const attributes = { class: `scroll ${more}`, tabindex: "0", role: "region", "aria-label": label };
    return make("div", attributes, table({}, headings, rows));
  }

  /* Make a part that can be unfolded; its content is made when it is first opened. */
  function fold(label, content, isOpen) {
    const details = make("details", {}, make("summary", {}, label));
    let isFilled = false;
    const fill = () => {
      if (!isFilled && details.open) {
        isFilled = true;
        details.append(...[content()].flat());
      }
    };
    details.addEventListener("toggle", fill);
    if (isOpen) {
      details.open = true;
      fill();
    }
    return details;
  }

  /* Return the value of a key that the run chose, such as the name of a metric; undefined if there is none. */
  const own = (object, key) => (Object.hasOwn(object, key) ? object[key] : undefined);

  const words = (name) => name.toLowerCase().replace(/_/g, " ");
  const status = (name) =>
    make(
      "span",
      { class: `status-${words(name).replace(/ /g, "-")}` },
      make("span", { "aria-hidden": "true" }, SYMBOLS[name] || "-"),
      ` ${words(name)}`,
    );
  const json = (value) => JSON.stringify(value, null, 1);
  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  function seconds(value) {
    if (value === null || value === undefined) return "";
    if (value < 10) return `${value.toFixed(2)} s`;
    if (value < 120) return `${value.toFixed(1)} s`;
    return `${Math.floor(value / 60)} min ${String(Math.floor(value % 60)).padStart(2, "0")} s`;
  }

  const short = (value) => (value && value < 0.1 ? `${(value * 1000).toFixed(1)} ms` : seconds(value));

  /* Format a score with more digits if it would look equal to a different threshold. */
  function score(value, other) {
    if (value === null || value === undefined) return "";
    const least = Math.max(Math.abs(value), Math.abs(other || 0)) >= 100 ? 0 : 2;
    for (let digits = least; digits < 7; digits++) {
      const shown = value.toFixed(digits);
      if (other === null || other === undefined || value === other || shown !== other.toFixed(digits)) return shown;
    }
    return value < other ? String(value) : value.toFixed(least);
  }

  const setName = (item) => [...new Set([item.target, item.eval_set].filter(Boolean))].join(" · ");
  const caseName = (item) => item.name + (item.repeat ? ` [${item.repeat + 1}]` : "");

  // The table of cases.

  const keyOf = (item) => JSON.stringify([item.target, item.eval_set, item.eval_id, item.occurrence]);
  const changes = new Map((comparison ? comparison.cases : []).map((item) => [keyOf(item), item]));
  const changeOf = (item) => (comparison ? changes.get(keyOf(item)) : undefined);
  const changeWord = (item) => ({ other: "changed" })[item.change] || item.change;

  const isDeciding = (metric) => metric.threshold !== null || metric.status === "ERROR";
  const metricNames = [];
  const known = new Set();
  for (const item of cases) {
    for (const metric of item.metrics) {
      if (isDeciding(metric) && !known.has(metric.name)) {
        known.add(metric.name);
        metricNames.push(metric.name);
      }
    }
  }
  const WIDEST = 75; // rem: what a window of 1,280 pixels has for the table
  const LEAST = 12; // rem of the column that takes the rest
  const setNames = [...new Set(cases.map(setName))];
  const scoreOf = (item, name) => item.metrics.find((metric) => metric.name === name);

  const columns = [
    {
      title: "Status",
      width: 8.5,
      value: (item) => STATUSES.indexOf(item.status),
      show: (item) => [
        status(item.status),
        item.model_calls && item.model_calls.replayed ? make("span", { title: item.replay }, " ↺") : null,
        item.unsure ? " unsure" : null,
      ],
    },
    { title: "Case", width: 16, value: (item) => caseName(item) },
  ];
  if (comparison) {
    columns.push({
      title: "Change",
      width: 7.5,
      value: (item) => (changeOf(item) ? Object.keys(CHANGES).indexOf(changeOf(item).change) : 99),
      show: (item) =>
        changeOf(item)
          ? [make("span", { "aria-hidden": "true" }, CHANGES[changeOf(item).change]), ` ${changeWord(changeOf(item))}`]
          : "",
    });
  }
  columns.push({
    title: "Why",
    width: null, // what the others leave
    value: (item) => item.reason,
    show: (item) => item.reason,
  });
  if (setNames.length > 1)
    columns.push({
      title: "Set",
      width: 11,
      value: setName,
      show: (item) => make("span", { title: setName(item) }, item.eval_set.split("/").pop().replace(/\.evalset\.json$/, "")),
    });
  const time = {
    title: "Time",
    width: 6,
    isNumber: true,
    value: (item) => item.agent_seconds || null,
    show: (item) => (item.agent_seconds ? short(item.agent_seconds) : "-"),
  };
  const widthOf = (all) => all.reduce((sum, column) => sum + (column.width || LEAST), 0);
  const metricWidth = 7.5;
  const room = Math.floor((WIDEST - widthOf([...columns, time])) / metricWidth);
  const misses = (name) => cases.filter((item) => (scoreOf(item, name) || {}).status === "FAILED").length;
  const byMisses = metricNames.map((name) => [misses(name), name]).sort((one, other) => other[0] - one[0]);
  const named = new Set(byMisses.slice(0, room).map(([, name]) => name));
  for (const name of metricNames.filter((name) => named.has(name))) {
    columns.push({
      title: name,
      width: metricWidth,
      isNumber: true,
      value: (item) => (scoreOf(item, name) || {}).score,
      show: (item) => scoreCell(scoreOf(item, name)),
    });
  }
  columns.push(time);

  const TIMES = new Set(["latency", "invocation_duration_v1"]);

  function scoreCell(metric) {
    if (!metric) return "";
    if (metric.score === null) return words(metric.status);
    const shown = TIMES.has(metric.name) ? short(metric.score) : score(metric.score, metric.threshold);
    return metric.status === "FAILED" ? make("span", { class: "missed" }, `✗ ${shown}`) : shown;
  }

  const HEIGHT = 34;
  const state = { query: "", statuses: new Set(), change: "", set: "", column: null, isDescending: false, active: 0 };
  let shown = cases.map((_, index) => index);
  let searched = null;

  const scroller = make("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "Cases" });
  const body = make("tbody", {});
  const headings = columns.map((column, index) => {
    const sort = button(column.title, () => sortBy(index), { title: `sort by ${column.title}` });
    return make("th", { scope: "col", class: column.isNumber && "number" }, sort);
  });
  const group = make("colgroup", {}, ...columns.map(() => make("col", {})));
  const rows = make(
    "table",
    { "aria-rowcount": cases.length + 1, "aria-labelledby": "cases-title" },
    group,
    make("thead", {}, make("tr", { "aria-rowindex": "1" }, ...headings)),
    body,
  );
  scroller.append(rows);
  columns.forEach((column, index) => (group.children[index].style.width = column.width ? `${column.width}rem` : "auto"));
  scroller.style.setProperty("--least", `${widthOf(columns)}rem`);

  /* Return the texts that the filter searches, made at the first search. */
  function searchTexts() {
    searched ||= cases.map((item) =>
      [
        caseName(item),
        setName(item),
        words(item.status),
        item.status,
        ...item.reasons,
        item.error ? item.error.message : "",
        ...item.turns.flatMap((turn) => [
          turn.user,
          turn.response || "",
          ...(turn.trajectory || []).map((call) => call.name),
        ]),
      ]
        .join("\n")
        .toLowerCase(),
    );
    return searched;
  }

  function select() {
    const wanted = state.query.toLowerCase().split(/\s+/).filter(Boolean);
    const texts = wanted.length ? searchTexts() : [];
    shown = [];
    cases.forEach((item, index) => {
      if (state.statuses.size && !state.statuses.has(item.status)) return;
      if (state.set && setName(item) !== state.set) return;
      if (state.change && (changeOf(item) || {}).change !== state.change) return;
      if (wanted.every((word) => texts[index].includes(word))) shown.push(index);
    });
    if (state.column === null) {
      shown.sort((one, other) => rank(cases[one]) - rank(cases[other]) || one - other);
    } else {
      const value = columns[state.column].value;
      const values = new Map(shown.map((index) => [index, value(cases[index])]));
      const isMissing = (one) => one === null || one === undefined || one === "";
      const compare = new Intl.Collator("en", { numeric: true }).compare;
      shown.sort((one, other) => {
        const [left, right] = [values.get(one), values.get(other)];
        if (isMissing(left) || isMissing(right)) return isMissing(left) - isMissing(right) || one - other;
        const order = typeof left === "number" ? left - right : compare(left, right);
        return (state.isDescending ? -order : order) || one - other;
      });
    }
    headings.forEach((element, index) => {
      const order = index !== state.column ? null : state.isDescending ? "descending" : "ascending";
      if (order) element.setAttribute("aria-sort", order);
      else element.removeAttribute("aria-sort");
      element.firstChild.textContent = columns[index].title + (order ? (state.isDescending ? " ▼" : " ▲") : "");
    });
    rows.setAttribute("aria-rowcount", shown.length + 1);
    state.active = 0;
    scroller.scrollTop = 0;
    count.textContent =
      shown.length === cases.length
        ? plural(cases.length, "case")
        : `${shown.length.toLocaleString("en")} of ${plural(cases.length, "case")}`;
    draw();
  }

  /* What went wrong comes first, as long as no column is chosen. */
  function rank(item) {
    const place = ["FAILED", "ERROR", "NOT_EVALUATED"].indexOf(item.status);
    return place < 0 ? 3 : place;
  }

  /* Sort by a column: ascending, then descending, then with what went wrong first. */
  function sortBy(index) {
    if (state.column !== index) Object.assign(state, { column: index, isDescending: false });
    else if (!state.isDescending) state.isDescending = true;
    else Object.assign(state, { column: null, isDescending: false });
    select();
  }

  /* Draw the rows that are visible, and a few more; two empty rows have the height of the others. */
  function draw() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / HEIGHT) - 10);
    const last = Math.min(shown.length, first + Math.ceil(Math.max(scroller.clientHeight, innerHeight) / HEIGHT) + 20);
    const hadFocus = body.contains(document.activeElement);
    body.replaceChildren(
      space(first),
      ...shown.slice(first, last).map((index, place) => drawRow(index, first + place)),
      space(shown.length - last),
    );
    if (!shown.length) body.replaceChildren(row(cell("no case matches the filter", { colspan: columns.length })));
    if (hadFocus) (body.querySelector("[tabindex='0']") || scroller).focus({ preventScroll: true });
  }

  function space(count) {
    const gap = make("td", { colspan: columns.length });
    gap.style.height = `${count * HEIGHT}px`;
    return make("tr", { "aria-hidden": "true" }, gap);
  }

  function drawRow(index, place) {
    const item = cases[index];
    const isActive = place === state.active;
    const cells = columns.map((column) => {
      if (column.title === "Case")
        return cell(
          button(caseName(item), null, { class: "plain", tabindex: isActive ? "0" : "-1", "data-place": place }),
          { title: caseName(item) },
        );
      const content = column.show(item);
      return cell(content, { class: column.isNumber && "number", title: typeof content === "string" ? content : null });
    });
    return make("tr", { "aria-rowindex": place + 2, "data-place": place, class: isActive && "active" }, ...cells);
  }

  function activate(place) {
    state.active = Math.max(0, Math.min(shown.length - 1, place));
    const top = state.active * HEIGHT;
    const room = scroller.clientHeight - 2 * HEIGHT;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top > scroller.scrollTop + room) scroller.scrollTop = top - room;
    draw();
    const target = body.querySelector("[tabindex='0']");
    if (target) target.focus({ preventScroll: true });
  }

  let isDrawing = false;
  scroller.addEventListener("scroll", () => {
    if (isDrawing) return;
    isDrawing = true;
    requestAnimationFrame(() => {
      isDrawing = false;
      draw();
    });
  });
  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-place]");
    if (line && !String(getSelection())) {
      state.active = Number(line.dataset.place);
      openCase(shown[state.active]);
    }
  });
  scroller.addEventListener("keydown", (event) => {
    if (event.target.closest("thead")) return;
    const page = Math.max(1, Math.floor(scroller.clientHeight / HEIGHT) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in moves) || !shown.length) return;
    event.preventDefault();
    activate(
      event.target === scroller && Math.abs(moves[event.key]) === 1 ? state.active : state.active + moves[event.key],
    );
  });

  const count = make("span", { role: "status", class: "quiet" });

  function filterTools() {
    const search = make("input", {
      type: "search",
      id: "search",
      placeholder: "ids, texts, tools, reasons",
      autocomplete: "off",
      spellcheck: "false",
    });
    search.addEventListener("input", () => {
      state.query = search.value;
      select();
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" && shown.length) {
        event.preventDefault();
        activate(state.active);
      }
    });
    const statuses = STATUSES.filter((name) => cases.some((item) => item.status === name)).map((name) => {
      const toggle = button(
        "",
        () => {
          if (!state.statuses.delete(name)) state.statuses.add(name);
          toggle.setAttribute("aria-pressed", String(state.statuses.has(name)));
          select();
        },
        { "aria-pressed": "false" },
      );
      toggle.append(status(name));
      return toggle;
    });
    const tools = [
      make("label", { for: "search" }, "Filter"),
      search,
      make("span", { role: "group", "aria-label": "Status", class: "tools" }, ...statuses),
    ];
    if (setNames.length > 1) tools.push(choice("Set", [["", "all"], ...setNames.map((name) => [name, name])], "set"));
    if (comparison) {
      const counts = Object.entries(comparison.counts).filter(([name, number]) => number && name !== "gone");
      tools.push(
        choice(
          "Change",
          [["", "all"], ...counts.map(([name, number]) => [name, `${changeWord({ change: name })} (${number})`])],
          "change",
        ),
      );
    }
    return make("div", { class: "tools" }, ...tools, count);
  }

  function choice(label, options, name) {
    const list = make("select", {}, ...options.map(([value, shownText]) => make("option", { value }, shownText)));
    list.addEventListener("change", () => {
      state[name] = options[list.selectedIndex][0];
      select();
    });
    return make("label", {}, label, list);
  }

  // One case.

  const overview = document.getElementById("overview");
  const page = document.getElementById("case");
  let openedIndex = null;

  /* The address names the opened case, so that the browser's own keys go back and forth. */
  function openCase(index) {
    location.hash = `case-${index + 1}`;
    follow();
  }

  function closeCase() {
    location.hash = "cases";
    follow();
  }

  function follow() {
    const found = /^#case-(\d+)$/.exec(location.hash);
    const index = found ? Number(found[1]) - 1 : -1;
    if (index === openedIndex) return;
    if (cases[index]) showCase(index);
    else if (openedIndex !== null) showOverview();
  }

  function showOverview() {
    openedIndex = null;
    page.hidden = true;
    page.replaceChildren();
    overview.hidden = false;
    draw();
    activate(state.active);
    scroller.scrollIntoView({ block: "nearest", behavior: "instant" });
  }

  function step(distance) {
    const place = shown.indexOf(openedIndex) + distance;
    if (openedIndex !== null && shown[place] !== undefined) openCase(shown[place]);
  }

  function showCase(index) {
    const item = cases[index];
    const place = shown.indexOf(index);
    if (place >= 0) state.active = place;
    openedIndex = index;
    overview.hidden = true;
    const title = make("h2", { id: "case-title", tabindex: "-1" }, caseName(item));
    const where =
      place >= 0 ? `${(place + 1).toLocaleString("en")} of ${shown.length.toLocaleString("en")}` : "not in the filter";
    const facts = [
      setName(item),
      item.agent_seconds ? `agent ${seconds(item.agent_seconds)}` : null,
      `whole case ${seconds(item.duration_seconds)}`,
    ]
      .filter(Boolean)
      .join(" · ");
    page.replaceChildren(
      make(
        "nav",
        { class: "tools", "aria-label": "Cases" },
        button("← All cases", closeCase),
        button("Previous", () => step(-1), { disabled: place <= 0 }),
        button("Next", () => step(1), { disabled: place < 0 || place + 1 >= shown.length }),
        make("span", { class: "quiet" }, where),
      ),
      make(
        "article",
        { "aria-labelledby": "case-title" },
        title,
        make("p", {}, status(item.status), item.unsure ? " · unsure: samples of a judge disagree" : "", " · ", facts),
        ...caseSections(item),
      ),
    );
    page.hidden = false;
    title.focus({ preventScroll: true });
    scrollTo({ top: 0, behavior: "instant" });
  }

  function section(title, ...content) {
    const filled = content.flat().filter(Boolean);
    return filled.length ? make("section", {}, make("h3", {}, title), ...filled) : null;
  }

  function caseSections(item) {
    const hasExpected = item.expected.length > 0;
    const output = item.output.length
      ? fold("Traceback, output and errors of the agent", () => make("pre", { tabindex: "0" }, item.output.join("\n")))
      : null;
    return [
      section("Why", reasons(item)),
      section("Change", changeTable(item)),
      section("Scores", scoresTable(item), ...item.metrics.flatMap(judgements)),
      section(
        hasExpected ? "Expected and actual" : "Conversation",
        acceptance(item),
        player(item),
        ...turnTables(item),
        stateTable(item),
      ),
      section("Model calls", replay(item)),
      section("Trace", ...traces(item)),
      section("Output", output),
    ].filter(Boolean);
  }

  function reasons(item) {
    const found = [];
    if (item.error) found.push(make("p", { class: "said" }, make("b", {}, `${item.error.kind}: `), item.error.message));
    const lines = item.reasons.filter((line) => !item.error || !line.includes(item.error.message));
    if (lines.length) found.push(make("ul", { class: "reasons" }, ...lines.map((line) => make("li", {}, line))));
    return found;
  }

  function player(item) {
    if (!item.simulation) return null;
    const { persona, scripted, model, end } = item.simulation;
    const by = `${scripted ? "a script instead of " : ""}${model}`;
    return make(
      "p",
      { class: "quiet" },
      `The user is ${persona || "simulated"}, played by ${by}. The conversation ended by ${words(end || "a failure")}.`,
    );
  }

  function changeTable(item) {
    const change = changeOf(item);
    if (!change) return null;
    const verdict = (one) => (one ? words(one.status) : "not run");
    const [before, after] = [change.before || { scores: {} }, change.after || { scores: {} }];
    const names = Object.keys({ ...before.scores, ...after.scores });
    const notes = [
      change.reason,
      change.asks_otherwise && "the case or its target changed between the runs",
      change.judged_otherwise && "the expectations or criteria changed between the runs",
    ].filter(Boolean);
    return [
      make(
        "p",
        {},
        `${CHANGES[change.change]} ${changeWord(change)}: ${verdict(change.before)} in ${comparison.before.run_id}, ${verdict(change.after)} now`,
        notes.length ? ` (${notes.join("; ")})` : "",
      ),
      names.length
        ? fold("Scores in both runs", () =>
            table(
              {},
              [heading("Metric"), heading("Before", { class: "number" }), heading("Now", { class: "number" })],
              names.map((name) =>
                row(
                  make("th", { scope: "row" }, name),
                  cell(score(own(before.scores, name), own(after.scores, name)), { class: "number" }),
                  cell(score(own(after.scores, name), own(before.scores, name)), { class: "number" }),
                ),
              ),
            ),
          )
        : null,
    ];
  }

  function scoresTable(item) {
    if (!item.metrics.length) return null;
    const ordered = [...item.metrics.filter(isDeciding), ...item.metrics.filter((metric) => !isDeciding(metric))];
    const lines = ordered.map((metric) => {
      const notes = [
        metric.reason,
        metric.hint,
        metric.judged_by &&
          `judged by ${metric.judged_by.read} of ${metric.judged_by.asked} samples in turn ${metric.judged_by.turn + 1}`,
      ].filter(Boolean);
      const turns =
        metric.per_invocation.length > 1
          ? `turns: ${metric.per_invocation.map((turn) => (turn.score === null ? "none" : score(turn.score))).join(", ")}`
          : "";
      return row(
        make("th", { scope: "row", class: "short" }, metric.name),
        cell(status(metric.status), { class: "short" }),
        cell(score(metric.score, metric.threshold), { class: "number" }),
        cell(score(metric.threshold, metric.score), { class: "number" }),
        cell([...notes, turns].filter(Boolean).join("; ")),
      );
    });
    const headings = [
      heading("Metric"),
      heading("Status"),
      heading("Score", { class: "number" }),
      heading("Threshold", { class: "number" }),
      heading("Reason", { class: "wide" }),
    ];
    return box("Scores", headings, lines, "tall");
  }

  // Judges: rubrics, sentences and samples with their reasons.

  function judgements(metric) {
    return metric.per_invocation.map((turn, index) => {
      const judgement = turn.judgement;
      if (!judgement) return null;
      const place = metric.per_invocation.length > 1 ? `, turn ${index + 1}` : "";
      const agreement =
        turn.agreement === null || turn.agreement === undefined
          ? ""
          : `, agreement ${Math.round(turn.agreement * 100)} %`;
      return fold(
        `${metric.name}${place}: judged by ${judgement.model}${agreement}`,
        () => make("div", { class: "inner" }, ...judgementParts(judgement)),
        metric.status !== "PASSED",
      );
    });
  }

  function judgementParts(judgement) {
    const parts = [];
    const votes = (one) =>
      Object.entries(one)
        .map(([name, number]) => `${number} ${words(name)}`)
        .join(", ");
    if (judgement.rubrics.length) {
      parts.push(
        table(
          {},
          [heading("Rubric"), heading("Verdict"), heading("Votes"), heading("Rationale")],
          judgement.rubrics.map((one) =>
            row(
              make("th", { scope: "row" }, `${one.rubric_id}: ${one.text}`),
              cell(one.score === null ? "none" : one.score ? "✓ yes" : "✗ no"),
              cell(`${one.yes} yes, ${one.no} no`),
              cell(one.rationale),
            ),
          ),
        ),
      );
    }
    if (judgement.sentences.length) {
      parts.push(
        table(
          {},
          [heading("Sentence"), heading("Label"), heading("Votes"), heading("Rationale and evidence")],
          judgement.sentences.map((one) =>
            row(
              make("th", { scope: "row" }, one.sentence),
              cell(`${one.score === 0 ? "✗ " : ""}${words(one.label || "none")}`),
              cell(votes(one.votes)),
              cell([one.rationale, one.evidence].filter(Boolean).join(" · ")),
            ),
          ),
        ),
      );
    }
    const sample = (one, index) =>
      row(
        make("th", { scope: "row" }, String(index + 1)),
        cell(one.problem ? "no verdict" : one.label || (one.score === null ? "on parts" : score(one.score))),
        cell([one.cached && "cached", one.scripted && "by a script"].filter(Boolean).join(", ")),
        cell([
          make("div", { class: "said" }, one.problem || one.rationale || ""),
          one.reply ? fold("Reply", () => make("pre", { tabindex: "0" }, one.reply)) : null,
        ]),
      );
    if (judgement.samples.length)
      parts.push(
        table(
          {},
          [heading("Sample"), heading("Verdict"), heading("Source"), heading("Rationale")],
          judgement.samples.map(sample),
        ),
      );
    if (judgement.prompt)
      parts.push(
        fold("Prompt of the judge", () =>
          make("pre", { tabindex: "0" }, [judgement.system, judgement.prompt].filter(Boolean).join("\n\n")),
        ),
      );
    return parts;
  }

  // Expected and actual turns, side by side.

  function acceptance(item) {
    const isAccepted = item.status === "PASSED" && item.differences.length;
    return isAccepted ? make("p", { class: "quiet" }, "The criteria accept the differences.") : null;
  }

  function turnTables(item) {
    const total = Math.max(item.expected.length, item.turns.length);
    const numbers = Array.from({ length: total }, (_, index) => index);
    const MOST = 50;
    const made = (from, to) => numbers.slice(from, to).map((index) => turnTable(item, index));
    if (total <= MOST) return made(0, total);
    return [...made(0, MOST), fold(`${plural(total - MOST, "more turn")}`, () => made(MOST, total))];
  }

  function turnTable(item, index) {
    const [expected, actual] = [item.expected[index], item.turns[index]];
    const differences = item.differences.filter((one) => one.turn === index);
    const lines = [];
    const user = actual ? actual.user : expected.user;
    const hasExpected = item.expected.length > 0;
    lines.push(
      make(
        "tr",
        {},
        make("th", { scope: "row", class: "kind" }, "user"),
        make("td", { colspan: hasExpected ? "2" : "1", class: "said" }, user),
      ),
    );
    lines.push(...callRows(expected, actual, differences));
    lines.push(responseRow(expected, actual, differences));
    if (!hasExpected) lines.slice(1).forEach((line) => line.deleteCell(1));
    const tokens = actual && actual.usage ? actual.usage.total : null;
    const facts = [
      actual && actual.duration_seconds ? seconds(actual.duration_seconds) : null,
      actual && actual.inference_calls ? plural(actual.inference_calls, "model call") : null,
      tokens === null ? null : plural(tokens, "token"),
    ]
      .filter(Boolean)
      .join(", ");
    return [
      make("h4", {}, `Turn ${index + 1}`, facts ? make("span", { class: "quiet" }, ` · ${facts}`) : null),
      table(
        { class: "sides" },
        [
          heading(hasExpected ? "Difference" : "Part", { class: "kind" }),
          hasExpected ? heading("Expected") : null,
          heading("Actual"),
        ],
        lines,
      ),
    ];
  }

  function diffRow(kind, left, right) {
    const sides = [left, right].map((side) => make("td", {}, ...[side].flat()));
    return make("tr", { class: kind.split(" ")[0] }, make("th", { scope: "row", class: "kind" }, kind), ...sides);
  }

  /* Pair the calls of both sides: the differences name the missing, extra and moved ones; the others are in order. */
  function callRows(expected, actual, differences) {
    const [left, right] = [(expected && expected.trajectory) || [], (actual && actual.trajectory) || []];
    const isKnown = expected && actual && expected.trajectory && actual.trajectory;
    const marks = new Map();
    const takenRight = new Map();
    const edits = new Map();
    for (const one of differences) {
      if (one.kind === "call_missing" || one.kind === "call_moved") marks.set(one.expected_call, one);
      if (one.kind === "call_extra") takenRight.set(one.actual_call, "extra call");
      if (one.kind === "call_moved") takenRight.set(one.actual_call, "moved call");
      if (one.kind.startsWith("argument_")) {
        edits.set(one.expected_call, (edits.get(one.expected_call) || new Set()).add(String(one.path[0])));
      }
    }
    const lines = [];
    let [i, j] = [0, 0];
    while (i < left.length || j < right.length) {
      if (i < left.length && (marks.has(i) || !isKnown)) {
        const mark = marks.get(i);
        const kind = !isKnown ? "call" : mark.kind === "call_moved" ? "moved call" : "missing call";
        lines.push(
          diffRow(
            kind,
            callText(left[i], mark && mark.kind === "call_missing" ? "del" : null),
            mark && mark.kind === "call_moved" ? `is call ${mark.actual_call + 1}` : "none",
          ),
        );
        i++;
      } else if (j < right.length && (takenRight.has(j) || !isKnown || i >= left.length)) {
        const kind = takenRight.get(j) || (isKnown ? "extra call" : "call");
        lines.push(
          diffRow(
            kind,
            expected ? (isKnown ? "none" : "unknown") : "no expectation",
            callText(right[j], kind === "extra call" ? "ins" : null),
          ),
        );
        j++;
      } else if (j < right.length) {
        const keys = edits.get(i) || new Set();
        const kind = keys.size ? "changed call" : "same call";
        lines.push(diffRow(kind, callText(left[i], "del", keys), callText(right[j], "ins", keys)));
        i++;
        j++;
      } else {
        lines.push(diffRow("call", callText(left[i], null), "unknown"));
        i++;
      }
    }
    if (!lines.length) {
      const side = (turn) =>
        !turn ? (turn === expected ? "no expectation" : "no turn") : turn.trajectory ? "no calls" : "calls unknown";
      lines.push(diffRow("calls", side(expected), side(actual)));
    }
    return lines;
  }

  /* Show a call. `tag` marks the arguments whose keys are in `keys`, or the whole call without `keys`. */
  function callText(call, tag, keys) {
    const mark = (content, isMarked) => (tag && isMarked ? make(tag, {}, content) : content);
    const entries = Object.entries(call.args || {});
    const list = entries.map(([key, value]) =>
      make("li", {}, make("code", {}, mark(`${key}: ${JSON.stringify(value)}`, !keys || keys.has(key)))),
    );
    const none = call.args ? " without arguments" : "";
    return [
      make("code", {}, mark(`ƒ ${call.name}`, !keys)),
      entries.length ? make("ul", { class: "arguments" }, ...list) : make("span", { class: "quiet" }, none),
    ];
  }

  function responseRow(expected, actual, differences) {
    const [left, right] = [expected ? expected.response : null, actual ? actual.response : null];
    const isChanged = differences.some((one) => one.kind === "response_changed");
    const missing = (turn, other) => make("span", { class: "quiet" }, turn ? "no response" : other);
    if (isChanged && left !== null && right !== null) {
      const parts = compareWords(left, right);
      const side = (wanted, tag) =>
        make(
          "div",
          { class: "said" },
          ...parts
            .filter((part) => part.tag === null || part.tag === wanted)
            .map((part) => (part.tag ? make(tag, {}, part.text) : part.text)),
        );
      return diffRow("changed response", side("del", "del"), side("ins", "ins"));
    }
    const said = (value, turn, other) =>
      value === null ? missing(turn, other) : make("div", { class: "said" }, value);
    return diffRow(
      isChanged ? "changed response" : expected && actual && left !== null ? "same response" : "response",
      said(left, expected, "no expectation"),
      said(right, actual, "no turn"),
    );
  }

  const WORD =
    /\s+|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff]|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;
  const MOST_PAIRS = 1_000_000;

  /* Compare texts by words: parts with `tag` null, "del" or "ins". Very long texts differ whole between equal ends. */
  function compareWords(before, after) {
    const [left, right] = [before.match(WORD) || [], after.match(WORD) || []];
    let start = 0;
    while (start < left.length && start < right.length && left[start] === right[start]) start++;
    let end = 0;
    while (
      end < left.length - start &&
      end < right.length - start &&
      left[left.length - 1 - end] === right[right.length - 1 - end]
    )
      end++;
    const [inner, other] = [left.slice(start, left.length - end), right.slice(start, right.length - end)];
    const parts = [];
    const add = (tag, value) => {
      const previous = parts[parts.length - 1];
      if (!value) return;
      if (previous && previous.tag === tag) previous.text += value;
      else parts.push({ tag, text: value });
    };
    add(null, left.slice(0, start).join(""));
    if (inner.length * other.length > MOST_PAIRS) {
      add("del", inner.join(""));
      add("ins", other.join(""));
    } else {
      const width = other.length + 1;
      const lengths = new Uint32Array((inner.length + 1) * width);
      for (let i = inner.length - 1; i >= 0; i--) {
        for (let j = other.length - 1; j >= 0; j--) {
          lengths[i * width + j] =
            inner[i] === other[j]
              ? lengths[(i + 1) * width + j + 1] + 1
              : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
        }
      }
      let [i, j] = [0, 0];
      while (i < inner.length || j < other.length) {
        if (i < inner.length && j < other.length && inner[i] === other[j]) add(null, inner[i++] && other[j++]);
        else if (i < inner.length && (j >= other.length || lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]))
          add("del", inner[i++]);
        else add("ins", other[j++]);
      }
    }
    add(null, left.slice(left.length - end).join(""));
    return parts;
  }

  function stateTable(item) {
    const found = item.differences.filter((one) => one.turn === null);
    if (!found.length) return null;
    const side = (value) => cell(make("pre", { tabindex: "0" }, value === null ? "none" : json(value)));
    return [
      make("h4", {}, "Final state"),
      table(
        { class: "sides" },
        [heading("Key"), heading("Expected"), heading("Actual")],
        found.map((one) => row(make("th", { scope: "row" }, one.path.join(".")), side(one.expected), side(one.actual))),
      ),
    ];
  }

  function replay(item) {
    if (!item.replay) return null;
    const difference = item.model_calls.difference;
    const saved = item.model_calls.replayed ? `, ${seconds(item.model_calls.saved_seconds)} saved` : "";
    const parts = [make("p", {}, item.replay + saved)];
    if (difference && (difference.before !== null || difference.now !== null)) {
      const words = compareWords(difference.before || "", difference.now || "");
      const side = (tag) =>
        make(
          "div",
          { class: "said" },
          ...words
            .filter((part) => part.tag === null || part.tag === tag)
            .map((part) => (part.tag ? make(tag, {}, part.text) : part.text)),
        );
      parts.push(
        table(
          { class: "sides" },
          [heading("Model call", { class: "kind" }), heading("Recorded"), heading("Now")],
          [diffRow(`${difference.call}: ${difference.what || "request"}`, side("del"), side("ins"))],
        ),
      );
    }
    if (difference && difference.hint) parts.push(make("p", {}, difference.hint));
    return parts;
  }

  // The trace as a waterfall.

  /* What a span without these keys has. */
  const ABSENT = {
    parent_id: null,
    kind: "other",
    name: "",
    start: null,
    end: null,
    error: null,
    request: null,
    response: null,
    attributes: {},
  };

  /*
   * Return the spans with their depths, each after its parent, in the order of their starts. Spans of a circle have no
   * root; they come last.
   */
  function orderSpans(spans) {
    const ids = new Set(spans.map((span) => span.id));
    const children = new Map(spans.map((span) => [span.id, []]));
    const isRoot = (span) => !ids.has(span.parent_id) || span.parent_id === span.id;
    const started = (span) => (span.start === null ? Infinity : span.start);
    const inOrder = [...spans].sort((one, other) => started(one) - started(other) || 0);
    for (const span of inOrder) if (!isRoot(span)) children.get(span.parent_id).push(span);
    const ordered = [];
    const seen = new Set();
    for (const first of [...inOrder.filter(isRoot), ...inOrder]) {
      const waiting = [[first, 0]];
      while (waiting.length) {
        const [span, depth] = waiting.pop();
        if (seen.has(span)) continue;
        seen.add(span);
        ordered.push([span, depth]);
        for (const child of [...children.get(span.id)].reverse()) waiting.push([child, depth + 1]);
      }
    }
    return ordered;
  }

  function traces(item) {
    const spans = item.spans.map((span) => ({ ...ABSENT, ...span }));
    if (!spans.length) return [];
    const ordered = orderSpans(spans);
    const timed = spans.filter((span) => span.start !== null);
    const begin = timed.reduce((least, span) => Math.min(least, span.start), Infinity);
    const finish = timed.reduce((most, span) => Math.max(most, span.end ?? span.start), -Infinity);
    const MOST = 300;
    const lines = (from, to) =>
      ordered.slice(from, to).flatMap(([span, depth]) => spanRows(span, depth, begin, finish));
    const whole = table(
      { class: "trace" },
      [
        heading("Step"),
        heading("Kind", { class: "kind" }),
        heading("Start", { class: "number time" }),
        heading("Time", { class: "number time" }),
        heading("Timeline", { class: "lane" }),
      ],
      lines(0, MOST),
    );
    if (ordered.length <= MOST) return [whole];
    const more = button(`Show ${plural(ordered.length - MOST, "more step")}`, () => {
      whole.tBodies[0].append(...lines(MOST));
      more.remove();
    });
    return [whole, more];
  }

  function spanRows(span, depth, begin, finish) {
    const details = make("tr", { hidden: true });
    const data = [
      ["request", span.request],
      ["response", span.response],
      ["attributes", Object.keys(span.attributes).length ? span.attributes : null],
    ].filter(([, value]) => value !== null && value !== undefined);
    const isReplayed = span.kind === "model" && typeof span.attributes["workbench.simulated"] === "string";
    const isSimulated = span.kind === "tool" && typeof span.attributes["workbench.simulated"] === "string";
    const marks = [
      isReplayed && "↺ replayed",
      isSimulated && "simulated",
      span.error && "✗ failed",
      span.start !== null && span.end === null && "unfinished",
    ]
      .filter(Boolean)
      .join(", ");
    const toggle = button(
      span.name || span.kind,
      () => {
        if (!details.firstChild) {
          details.append(
            make(
              "td",
              { colspan: "5" },
              span.error ? make("p", { class: "missed" }, span.error) : null,
              ...data.flatMap(([name, value]) => [
                make("h4", {}, name),
                make("pre", { tabindex: "0" }, typeof value === "string" ? value : json(value)),
              ]),
              data.length || span.error ? null : "no data",
            ),
          );
        }
        details.hidden = !details.hidden;
        toggle.setAttribute("aria-expanded", String(!details.hidden));
      },
      { class: "plain", "aria-expanded": "false" },
    );
    const name = make(
      "td",
      {},
      toggle,
      marks ? make("span", { class: span.error ? "missed" : "quiet" }, ` ${marks}`) : null,
    );
    name.style.paddingLeft = `${0.5 + Math.min(depth, 12) * 0.9}rem`;
    const track = make("div", { class: "track", "aria-hidden": "true" });
    if (span.start !== null) {
      const whole = Math.max(finish - begin, 1e-9);
      const bar = make("div", { class: `bar ${span.error ? "failed" : span.kind === "tool" ? "tool" : ""}` });
      bar.style.left = `${Math.min(99.5, ((span.start - begin) / whole) * 100)}%`;
      bar.style.width = `${(((span.end ?? finish) - span.start) / whole) * 100}%`;
      track.append(bar);
    }
    const start = span.start === null ? "-" : short(span.start - begin);
    const time = span.start === null || span.end === null ? "-" : short(span.end - span.start);
    return [
      make(
        "tr",
        {},
        name,
        cell(span.kind, { class: "kind" }),
        cell(start, { class: "number" }),
        cell(time, { class: "number" }),
        make("td", {}, span.start === null ? null : track),
      ),
      details,
    ];
  }

  // The comparison with an earlier run, and the last runs.

  function comparisonSection() {
    if (!comparison) return null;
    const counts = Object.entries(comparison.counts)
      .filter(([, number]) => number)
      .map(
        ([name, number]) =>
          `${CHANGES[name]} ${number} ${(number !== 1 && PLURALS[name]) || changeWord({ change: name })}`,
      );
    const gone = comparison.cases.filter((item) => item.change === "gone");
    const metrics = Object.entries(comparison.metrics);
    const difference = (value) => `${value > 0 ? "+" : ""}${value.toPrecision(3)}`;
    return make(
      "section",
      { "aria-labelledby": "comparison-title" },
      make("h2", { id: "comparison-title" }, `Compared with ${comparison.before.run_id}`),
      make("p", {}, counts.join(", ") || "no case ran in either"),
      ...comparison.judged_differently.map((line) => make("p", { class: "quiet" }, line)),
      metrics.length
        ? fold(`Means over the cases of both runs (${metrics.length})`, () =>
            box(
              "Means over the cases of both runs",
              [
                heading("Metric"),
                heading("Before", { class: "number" }),
                heading("Now", { class: "number" }),
                heading("Difference", { class: "number" }),
                heading("Cases", { class: "number" }),
              ],
              metrics.map(([name, one]) =>
                row(
                  make("th", { scope: "row" }, name),
                  cell(score(one.before, one.after), { class: "number" }),
                  cell(score(one.after, one.before), { class: "number" }),
                  cell(one.difference ? difference(one.difference) : "0", { class: "number" }),
                  cell(String(one.cases), { class: "number" }),
                ),
              ),
            ),
          )
        : null,
      gone.length
        ? fold(`Only in the earlier run (${gone.length})`, () =>
            make(
              "ul",
              { class: "reasons" },
              ...gone.map((item) => make("li", {}, `${setName(item)}: ${item.eval_id}`)),
            ),
          )
        : null,
    );
  }

  function historySection() {
    const runs = run.history.filter((one) => one.summary.total);
    if (runs.length < 2) return null;
    const share = ({ summary }) => {
      const judged = summary.passed + summary.failed + summary.quarantined;
      return judged ? summary.passed / judged : null;
    };
    const shownNames = Object.keys(run.summary.metrics).filter(
      (name) => metricNames.includes(name) || name === "latency",
    );
    const plots = [
      ["Passed of judged cases", runs.map(share)],
      ...shownNames.map((name) => [name, runs.map((one) => (own(one.summary.metrics, name) || { mean: null }).mean)]),
    ];
    const drawn = plots.filter(([, values]) => values.filter((value) => value !== null).length > 1);
    if (!drawn.length) return null;
    return make(
      "section",
      { "aria-labelledby": "history-title" },
      make("h2", { id: "history-title" }, `The last ${runs.length} whole runs of the same cases`),
      make("div", { class: "plots" }, ...drawn.map(([name, values]) => plot(name, runs, values))),
      fold("The numbers of these runs", () =>
        box(
          "Runs",
          [
            heading("Run"),
            heading("Cases", { class: "number" }),
            ...drawn.map(([name]) => heading(name, { class: "number" })),
          ],
          runs.map((one, index) =>
            row(
              make("th", { scope: "row" }, one.run_id),
              cell(String(one.summary.total), { class: "number" }),
              ...drawn.map(([, values]) => cell(score(values[index]), { class: "number" })),
            ),
          ),
        ),
      ),
    );
  }

  function drawShape(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.append(...children.map((child) => (child instanceof Node ? child : text(child))));
    return element;
  }

  function plot(name, runs, values) {
    const numbers = values.filter((value) => value !== null);
    const isShare = numbers.every((value) => value >= 0 && value <= 1) && name !== "latency";
    const low = isShare ? 0 : Math.min(0, ...numbers);
    const high = isShare ? 1 : Math.max(...numbers, low + 1e-9);
    const [width, height, side, top] = [320, 110, 40, 10];
    const x = (index) => side + (index / Math.max(1, runs.length - 1)) * (width - side - 12);
    const y = (value) => top + (1 - (value - low) / (high - low)) * (height - 2 * top);
    const points = values.map((value, index) => [value, index]).filter(([value]) => value !== null);
    const label = `${name}: ${score(numbers[0])} at first, ${score(numbers[numbers.length - 1])} at last, ${score(Math.min(...numbers))} to ${score(Math.max(...numbers))}`;
    const image = drawShape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": neutralise(label) });
    for (const value of [low, high])
      image.append(
        drawShape("line", { class: "axis", x1: side, x2: width - 6, y1: y(value), y2: y(value) }),
        drawShape("text", { x: side - 6, y: y(value) + 4, "text-anchor": "end" }, score(value)),
      );
    image.append(
      drawShape("polyline", {
        class: "curve",
        points: points.map(([value, index]) => `${x(index)},${y(value)}`).join(" "),
      }),
    );
    for (const [value, index] of points) {
      const isNow = runs[index].run_id === run.run_id;
      image.append(
        drawShape(
          "circle",
          { class: isNow ? "point now" : "point", cx: x(index), cy: y(value), r: isNow ? 5 : 3.5 },
          drawShape("title", {}, `${runs[index].run_id}: ${score(value)}`),
        ),
      );
    }
    return make(
      "figure",
      {},
      make(
        "figcaption",
        {},
        name,
        make("span", { class: "quiet" }, ` · now ${score(values[values.length - 1]) || "-"}`),
      ),
      image,
    );
  }

  // Theme, keys, start.

  function themeSwitch() {
    const KEY = "workbench-report-theme";
    const names = ["system", "dark", "light"];
    let current = "system";
    try {
      current = names.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "system";
    } catch (error) {
      // The browser stores nothing for this file: the choice holds until it is closed.
    }
    const toggle = button("", () => set(names[(names.indexOf(current) + 1) % names.length]));
    function set(name) {
      current = name;
      if (name === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = name;
      toggle.textContent = `Theme: ${name}`;
      try {
        localStorage.setItem(KEY, name);
      } catch (error) {
        // As above.
      }
    }
    set(current);
    document.getElementById("theme").append(toggle);
  }

  let hasLetterKeys = true;

  function keyHelp() {
    const toggle = make("input", { type: "checkbox", id: "letters", checked: true });
    toggle.addEventListener("change", () => (hasLetterKeys = toggle.checked));
    const keys = [
      ["/", "filter the cases"],
      ["↑ ↓ Page Home End", "move in the table of cases"],
      ["Enter", "open the case, sort by the heading"],
      ["n p", "next and previous case"],
      ["Esc", "back to all cases"],
    ];
    document
      .getElementById("keys")
      .append(
        fold("Keys", () => [
          make(
            "dl",
            { class: "keys" },
            ...keys.flatMap(([names, what]) => [
              make("dt", {}, ...names.split(" ").flatMap((name) => [make("kbd", {}, name), " "])),
              make("dd", {}, what),
            ]),
          ),
          make("label", { for: "letters" }, toggle, " keys that are single characters: / n p"),
        ]),
      );
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape" && openedIndex !== null) {
      closeCase();
      return;
    }
    if (!hasLetterKeys || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "/" && openedIndex === null) {
      event.preventDefault();
      document.getElementById("search").focus();
    } else if (event.key === "n") step(1);
    else if (event.key === "p") step(-1);
  });

  themeSwitch();
  keyHelp();
  const list = make(
    "section",
    { "aria-labelledby": "cases-title" },
    make("h2", { id: "cases-title" }, "Cases"),
    filterTools(),
    scroller,
  );
  const extra =
    metricNames.length > named.size
      ? make(
          "p",
          { class: "quiet" },
          `The table shows ${named.size} of ${metricNames.length} criteria; a case shows all of its scores.`,
        )
      : null;
  if (extra) list.append(extra);
  overview.append(...[comparisonSection(), list, historySection()].filter(Boolean));
  select();
  addEventListener("hashchange", follow);
  addEventListener("resize", () => openedIndex === null && draw());
  follow();
})();
