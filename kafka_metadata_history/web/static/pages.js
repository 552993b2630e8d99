// Keeps a page up to date and in its place, steps through events, and gives figures their height.
// Without it all pages work, and stay as they were loaded.
(() => {
  "use strict";
  const live = document.getElementById("live");
  let version = document.body.dataset.version;
  let here = location.href;

  // --- figures: a page in a frame, as high as its content ---
  const heights = new ResizeObserver((changes) => {
    for (const change of changes) {
      const frame = change.target.ownerDocument.defaultView?.frameElement;
      if (frame) frame.style.height = `${Math.ceil(change.target.getBoundingClientRect().height) + 80}px`;
    }
  });
  const fit = (frame) => {
    // Until it is loaded it holds an empty page, as high as the frame.
    const watch = () => { if (frame.contentDocument?.body?.firstElementChild) heights.observe(frame.contentDocument.body); };
    frame.addEventListener("load", watch);
    watch();
  };

  // --- the slider: each step is an event, the last one is now ---
  const slide = (form) => {
    const times = JSON.parse(form.dataset.times);
    const [text, range, said] = ["[name=at]", "[type=range]", "output"].map((each) => form.querySelector(each));
    form.querySelector(".range").hidden = false;
    const at = text.value === "" ? times.length : times.findIndex((each) => Date.parse(each) >= Date.parse(text.value));
    range.value = at < 0 ? times.length : at;
    const say = () => {
      const time = times[range.value];
      said.value = time === undefined ? "now" : `${time.slice(0, 19).replace("T", " ")} UTC, ${Number(range.value) + 1} of ${times.length}`;
      range.setAttribute("aria-valuetext", said.value);
    };
    let waiting;
    range.addEventListener("input", () => {
      text.value = times[range.value] ?? "";
      say();
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        const address = new URL(here);
        if (text.value === "") address.searchParams.delete("at");
        else address.searchParams.set("at", text.value);
        here = address.href;
        history.replaceState(null, "", here);
        refresh();
      }, 150);
    });
    say();
  };

  const ready = (part) => {
    part.querySelectorAll("iframe").forEach(fit);
    part.querySelectorAll("form.slider").forEach(slide);
  };

  // --- a new version of the lake: parts that differ are replaced, but for what is being typed in ---
  let number = 0;
  const refresh = async () => {
    const own = ++number;
    const answer = await fetch(here, {redirect: "error"}).catch(() => null);
    if (own !== number) return;
    if (answer === null || !answer.ok) {
      live.textContent = answer?.status === 401 ? "Log in again to see what is new." : "This page could not be brought up to date; trying again.";
      if (answer?.status !== 401) setTimeout(() => { if (own === number) refresh(); }, 2000 + 1000 * Math.random());
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    version = page.body.dataset.version ?? version;
    for (const part of page.querySelectorAll("[data-part]")) {
      const old = document.querySelector(`[data-part="${part.dataset.part}"]`);
      if (old === null || old.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) continue;
      const frames = [...part.querySelectorAll("iframe")];
      const olds = [...old.querySelectorAll("iframe")];
      if (frames.length ? frames.every((frame, n) => frame.getAttribute("src") === olds[n]?.getAttribute("src")) : old.innerHTML === part.innerHTML) continue;
      frames.forEach((frame, n) => { frame.style.height = olds[n]?.style.height ?? ""; });
      const made = document.adoptNode(part);
      const scrolled = [...old.querySelectorAll(".wide")].map((each) => each.scrollLeft);
      old.replaceWith(made);
      made.querySelectorAll(".wide").forEach((each, n) => { each.scrollLeft = scrolled[n] ?? 0; });
      ready(made);
    }
    live.textContent = "";
    document.documentElement.dataset.shown = here;
  };

  document.querySelectorAll("[data-part]").forEach(ready);
  if (version !== undefined) {
    const changes = new EventSource("/changes");
    changes.onmessage = (event) => { if (event.data !== version) setTimeout(refresh, 300 * Math.random()); };
    changes.onerror = () => { live.textContent = "The connection is lost; trying again."; };
    changes.onopen = () => { live.textContent = ""; };
  }
  document.documentElement.dataset.ready = "yes";
})();
