// Draws the figures, moves their common time axis, and shows the rows behind what is clicked.
// Texts of a cluster become text nodes, never HTML.
(async () => {
  "use strict";
  const element = (id) => document.getElementById(id);
  const data = JSON.parse(element("data").textContent);
  await Bokeh.embed.embed_items(data.docs, data.items);
  const models = Bokeh.documents[Bokeh.documents.length - 1];
  const views = models.roots().map((root) => Bokeh.index.find_one(root));
  const range = models.get_model_by_name("time");
  const [since, until] = data.window;

  const whole = (at) => new Date(at).toISOString().replace("T", " ").replace("Z", "");
  const day = whole(since).slice(0, 10) === whole(until).slice(0, 10) ? `${whole(since).slice(0, 10)} ` : null;
  const short = (at) => (day !== null && whole(at).startsWith(day) ? whole(at).slice(11) : whole(at));
  const between = (after, before) => {
    if (before === null) return after === null ? "" : `after ${short(after)}`;
    if (after === null) return `by ${short(before)}`;
    const first = short(Math.min(after, before));
    const last = short(Math.max(after, before));
    if (first === last) return `at ${first}`;
    const sameDay = last.length > 12 && first.slice(0, 11) === last.slice(0, 11);
    return `between ${first} and ${sameDay ? last.slice(11) : last}`;
  };

  // --- the time axis ---
  const say = () => {
    element("shown").textContent = `${whole(range.start).slice(0, 19)} to ${whole(range.end).slice(0, 19)}`;
  };
  range.change.connect(say);
  say();
  const show = (start, end) => range.setv({start: Math.max(start, since), end: Math.min(end, until)});
  const zoom = (factor) => {
    const middle = (range.start + range.end) / 2;
    const half = Math.max(((range.end - range.start) / 2) * factor, range.min_interval / 2);
    show(middle - half, middle + half);
  };
  element("in").onclick = () => zoom(0.5);
  element("out").onclick = () => zoom(2);
  element("reset").onclick = () => show(since, until);
  const tools = views.flatMap((view) => view.model.toolbar.tools);
  const turn = (type, on) => tools.filter((tool) => tool.type === type).forEach((tool) => { tool.active = on; });
  const press = (id, on) => element(id).setAttribute("aria-pressed", String(on));
  const drag = (zooms) => {
    turn("PanTool", !zooms);
    turn("BoxZoomTool", zooms);
    press("pan", !zooms);
    press("box", zooms);
  };
  element("pan").onclick = () => drag(false);
  element("box").onclick = () => drag(true);
  element("wheel").onclick = () => {
    const on = element("wheel").getAttribute("aria-pressed") !== "true";
    turn("WheelZoomTool", on);
    press("wheel", on);
  };

  // --- the rows behind a mark ---
  const sources = data.sections.map((section) => models.get_model_by_name(`${section.name} rows`));
  const cell = (text) => {
    const made = document.createElement("td");
    made.textContent = text;
    return made;
  };
  const line = ([kind, subject, after, before, endedAfter, endedBefore, details, inferred, table]) => {
    const made = document.createElement("tr");
    const ended = between(endedAfter, endedBefore);
    const what = kind.replaceAll("_", " ");
    made.append(...[what, subject, between(after, before), ended, details, inferred, table].map(cell));
    return made;
  };
  const fill = (section, indices) => {
    const marks = indices.map((index) => section.marks[index]);
    const rows = marks.flatMap((mark) => mark[1]);
    const all = marks.reduce((sum, mark) => sum + mark[0], 0);
    const own = rows.filter((row) => row[8] === section.table).length;
    element("rows-title").textContent = `${own} of ${all} row${all === 1 ? "" : "s"} of ${section.table}`
      + (rows.length > own ? `, and ${rows.length - own} rows behind` : "");
    element("rows-note").textContent = `The page has a part of them. For all: ${section.query}`;
    element("rows-note").hidden = own === all;
    element("rows-body").replaceChildren(...rows.map(line));
    element("rows").hidden = false;
  };
  const close = () => {
    element("rows").hidden = true;
    sources.forEach((source) => source.selected.setv({indices: []}));
  };
  element("close").onclick = close;
  addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  data.sections.forEach((section, number) => {
    const source = sources[number];
    source.selected.properties.indices.change.connect(() => {
      const indices = source.selected.indices;
      if (indices.length === 0) return;
      sources.forEach((other) => {
        if (other !== source && other.selected.indices.length) other.selected.setv({indices: []});
      });
      fill(section, indices);
    });
  });

  // --- print: a picture of each figure, as wide as the paper ---
  addEventListener("beforeprint", () => {
    for (const view of views) {
      const place = view.el.parentElement;
      const canvas = view.export("png", true).canvas;
      let picture = place.querySelector("img.print");
      if (picture === null) {
        picture = document.createElement("img");
        picture.className = "print";
        picture.alt = "";
        place.append(picture);
      }
      picture.src = canvas.toDataURL("image/png");
      place.classList.add("has-picture");
    }
  });
  document.documentElement.dataset.ready = "yes";
  document.documentElement.dataset.readyAfter = String(Math.round(performance.now()));
})();
