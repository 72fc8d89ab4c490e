// What pages gain from JavaScript: the viewer's time zone, charts, keyboard, the theme. All pages can be read without it.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  function localTimes(root) {
    for (const element of $$("time[datetime]:not([data-local])", root)) {
      const moment = new Date(element.dateTime);
      if (Number.isNaN(moment.getTime())) continue;
      const pad = (number, width = 2) => String(number).padStart(width, "0");
      const day = `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())}`;
      const clock = `${pad(moment.getHours())}:${pad(moment.getMinutes())}:${pad(moment.getSeconds())}`;
      const today = moment.toDateString() === new Date().toDateString();
      element.textContent = today ? `${clock}.${pad(moment.getMilliseconds(), 3)}` : `${day} ${clock}`;
      element.dataset.local = "";
    }
  }

  function resolved(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function clockTimes(_, moments) {
    const seconds = moments.length > 1 && moments[1] - moments[0] < 60;
    const style = { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(seconds ? { second: "2-digit" } : {}) };
    return moments.map((moment) => new Date(moment * 1000).toLocaleTimeString([], style));
  }

  // The same form as on the pages: thin spaces between thousands, sizes with their unit.
  function axisNumbers(unit) {
    const plain = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u2009");
    const sized = (value) => {
      const step = value >= 1e9 ? 3 : value >= 1e6 ? 2 : value >= 1e3 ? 1 : 0;
      return `${Number((value / 1000 ** step).toPrecision(3))} ${["B", "KB", "MB", "GB"][step]}`;
    };
    return (_, values) => values.map((value) => value == null ? "" : unit === "bytes" ? sized(value) : Number.isInteger(value) ? plain(value) : unit.endsWith("/s") ? String(value) : "");
  }

  function charts(root) {
    if (typeof uPlot === "undefined") return;
    for (const figure of $$("figure[data-chart]:not([data-drawn])", root)) {
      const data = JSON.parse(figure.dataset.chart);
      const place = $(".plot", figure);
      if (!data.times || data.times.length < 2) continue;
      figure.dataset.drawn = "";
      const accent = resolved("--accent"), line = resolved("--line"), muted = resolved("--muted");
      const axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const bars = figure.dataset.kind === "bars";
      const series = { label: figure.dataset.unit, stroke: accent, width: 1.5, points: { show: false }, fill: accent.replace("rgb(", "rgba(").replace(")", ", .12)") };
      if (bars) series.paths = uPlot.paths.bars({ size: [0.8, 40] });
      // Several lines have a legend below the chart, in the same order.
      const colours = ["--accent", "--warn", "--good", "--bad", "--muted"];
      const lines = data.series ? data.series.map((line, at) => ({ label: line.label, stroke: resolved(colours[at % colours.length]), width: 1.5, points: { show: false } })) : [series];
      const values = data.series ? data.series.map((line) => line.values) : [data.values];
      const plot = new uPlot({
        width: place.clientWidth, height: Number(figure.dataset.height || 140), legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.15, 1)] } },
        axes: [{ ...axis, size: 28, values: clockTimes }, { ...axis, size: 56, values: axisNumbers(figure.dataset.unit) }],
        series: [{}, ...lines],
        hooks: { setCursor: [(self) => {
          const at = self.cursor.idx;
          const said = lines.map((line, n) => `${data.series ? line.label + " " : ""}${self.data[n + 1][at]} ${figure.dataset.unit}`).join(", ");
          place.title = at == null ? "" : `${said} at ${new Date(self.data[0][at] * 1000).toLocaleTimeString()}`;
        }] },
      }, [data.times, ...values], place);
      new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: plot.height })).observe(place);
    }
  }

  function rows() { return $$("table.rows tbody tr").filter((row) => row.offsetParent !== null); }
  let chosen = -1;
  function choose(step) {
    const all = rows();
    if (!all.length) return;
    all[chosen]?.classList.remove("chosen");
    chosen = Math.min(Math.max(chosen + step, 0), all.length - 1);
    all[chosen].classList.add("chosen");
    all[chosen].scrollIntoView({ block: "nearest" });
    (($("a, summary", all[chosen])) || all[chosen]).focus({ preventScroll: true });
  }

  let pending = false;
  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest("input, textarea, select, .code-editor");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    if (pending) {
      pending = false;
      const link = $(`nav.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); location.assign(link.href); }
      return;
    }
    if (event.key === "/") { const search = $("#search"); if (search) { event.preventDefault(); search.focus(); search.select(); } }
    else if (event.key === "g") pending = true;
    else if (event.key === "j") choose(1);
    else if (event.key === "k") choose(-1);
    else if (event.key === "?") $("#shortcuts").showModal();
  }

  function themeButton() {
    const button = $("#theme");
    button.hidden = false;
    button.addEventListener("click", () => {
      const dark = document.documentElement.dataset.theme
        ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      document.documentElement.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("headrace-theme", document.documentElement.dataset.theme);
      for (const figure of $$("figure[data-drawn]")) { $(".plot", figure).replaceChildren(); delete figure.dataset.drawn; }
      charts(document);
    });
    const help = $("#help");
    help.hidden = false;
    help.addEventListener("click", () => $("#shortcuts").showModal());
  }

  // A search goes on by itself: each step is the page of the link that would resume it.
  let paused = false;
  async function goOn() {
    const step = $("#step");
    if (!step || !step.dataset.resume || paused) return;
    $("#pause").hidden = false;
    const answer = await fetch(step.dataset.resume, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (paused) return;
    const body = $("#matches tbody");
    const rows = $$("#matches tbody tr", page);
    body.append(...rows);
    if (body.children.length) $("#matches .card").classList.remove("hidden");
    localTimes(body);
    $("#step").replaceWith($("#step", page));
    // So many rows are more than a person reads; the link goes on.
    if (body.children.length < 500) goOn();
  }
  document.addEventListener("click", (event) => {
    if (event.target.id === "pause") { paused = true; event.target.hidden = true; }
    if (event.target.id === "pause-tail") {
      const held = document.body.toggleAttribute("data-held");
      event.target.textContent = held ? "Go on" : "Pause";
    }
  });
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (document.body.hasAttribute("data-held")) event.preventDefault();
  });
  document.addEventListener("htmx:sseMessage", () => {
    const tail = $("#tail");
    while (tail && tail.children.length > 300) tail.lastElementChild.remove();
  });

  // Times of forms are in UTC for the server, and in the zone of the viewer for the viewer.
  function localFields() {
    const pad = (number) => String(number).padStart(2, "0");
    for (const field of $$("input[type=datetime-local]")) {
      const sent = document.createElement("input");
      sent.type = "hidden";
      sent.name = field.name;
      sent.value = field.value;
      const moment = field.value ? new Date(`${field.value}Z`) : null;
      if (moment && !Number.isNaN(moment.getTime())) {
        field.value = `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())}T${pad(moment.getHours())}:${pad(moment.getMinutes())}:${pad(moment.getSeconds())}`;
      }
      field.removeAttribute("name");
      field.after(sent);
      const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const label = field.closest("label").firstChild;
      label.textContent = label.textContent.replace("UTC", zone || "local");
      field.addEventListener("input", () => {
        const wanted = field.value ? new Date(field.value) : null;
        sent.value = wanted ? wanted.toISOString().slice(0, 19) : "";
      });
    }
  }

  function settingsFilter() {
    const place = $(".filter-settings");
    if (!place) return;
    place.hidden = false;
    const more = $(".more-settings");
    $("input", place).addEventListener("input", (event) => {
      const text = event.target.value.trim().toLowerCase();
      for (const row of $$(".setting")) row.hidden = text !== "" && !row.textContent.toLowerCase().includes(text);
      if (text) more.open = true;
    });
    // Enter would send the form.
    $("input", place).addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
  }

  function choosing() {
    const all = $("#choose-all");
    if (!all) return;
    all.hidden = false;
    all.addEventListener("change", () => { for (const box of $$("#chosen input[name=record]")) box.checked = all.checked; });
  }

  function improve(root) { localTimes(root); charts(root); }

  // A hidden tab asks nothing.
  setInterval(() => {
    const live = $("#live");
    if (live && document.visibilityState === "visible") live.dispatchEvent(new Event("refresh"));
  }, 5000);

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.classList.contains("editor")) event.target.form.requestSubmit();
  });
  document.addEventListener("keydown", keys);
  document.addEventListener("htmx:load", (event) => improve(event.detail.elt));
  document.addEventListener("DOMContentLoaded", () => { themeButton(); improve(document); choosing(); localFields(); settingsFilter(); goOn(); });
  document.addEventListener("click", (event) => {
    for (const open of $$("details.switch[open], details.menu[open]")) if (!open.contains(event.target)) open.open = false;
  });
})();
