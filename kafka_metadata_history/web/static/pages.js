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

  // --- a new version of the lake: parts that differ are replaced, but for figures and what is being typed in ---
  let number = 0;
  const refresh = async () => {
    const own = ++number;
    const answer = await fetch(here, {redirect: "error"}).catch(() => null);
    if (own !== number) return;
    if (answer === null || answer.status >= 500) {
      live.textContent = "This page could not be brought up to date; trying again.";
      setTimeout(() => { if (own === number) refresh(); }, 2000 + 1000 * Math.random());
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    version = page.body.dataset.version ?? version;
    if (!answer.ok) {
      live.textContent = answer.status === 401 ? "Log in again to see what is new." : page.querySelector(".line")?.textContent ?? "";
      return;
    }
    const parts = [...page.querySelectorAll("[data-part]")];
    if (document.querySelector("[data-part]") === null) { location.reload(); return; }
    for (const part of parts) {
      const old = document.querySelector(`[data-part="${part.dataset.part}"]`);
      const isTyped = old?.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
      if (old === null || isTyped || old.querySelector("iframe") || old.innerHTML === part.innerHTML) continue;
      const made = document.adoptNode(part);
      const scrolled = [...old.querySelectorAll(".wide")].map((each) => each.scrollLeft);
      old.replaceWith(made);
      made.querySelectorAll(".wide").forEach((each, n) => { each.scrollLeft = scrolled[n] ?? 0; });
      ready(made);
    }
    live.textContent = "";
    document.documentElement.dataset.shown = here;
  };

  // --- the server names each new version; a browser has few connections, so a hidden page has none ---
  let changes = null;
  const listen = () => {
    if (document.hidden || changes !== null) return;
    changes = new EventSource("/changes");
    changes.onmessage = (event) => { if (event.data !== version) setTimeout(refresh, 300 * Math.random()); };
    changes.onopen = () => { live.textContent = ""; };
    changes.onerror = () => {
      live.textContent = "The connection is lost; trying again.";
      if (changes?.readyState !== EventSource.CLOSED) return;
      changes = null;
      setTimeout(listen, 5000);
    };
  };
  const hush = () => { changes?.close(); changes = null; };

  document.querySelectorAll("[data-part]").forEach(ready);
  if (version !== undefined) {
    document.addEventListener("visibilitychange", () => { if (document.hidden) hush(); else listen(); });
    listen();
  }
  document.documentElement.dataset.ready = "yes";
})();
