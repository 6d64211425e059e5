"use strict";

// Draws the plots in the colours of the page and keeps them in step with light and dark. Names and notes of hosts
// are text in the page already; the figures' own texts were escaped where they were made.
(function () {
  const figures = JSON.parse(document.getElementById("plots").textContent);
  const nodes = Array.from(document.querySelectorAll("[data-plot]"));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const light = ["#1f6fb2", "#c8561b", "#2b8a3e", "#8e44ad", "#b8860b", "#c2255c", "#0b7285", "#5c5f66"];
  const bright = ["#6cb6ff", "#ff9e64", "#7ee08f", "#d2a8ff", "#e8c547", "#ff8fb8", "#5fd3e0", "#b8bec7"];
  const buttons = [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]];
  const config = { displaylogo: false, responsive: true, modeBarButtons: buttons };
  const few = 24;  // plots that are drawn at once; more are drawn as they come into sight
  const shown = new Set();

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue("--" + name).trim();
    return {
      numbers: dark.matches ? bright : light,
      back: of("panel"), text: of("text"), quiet: of("quiet"), line: of("line"),
      loss: of("bad"), gain: of("better"), baseline: of("text"),
    };
  }

  function painted(figure, colour) {
    const copy = structuredClone(figure);
    for (const trace of copy.data) {
      const meta = trace.meta || {};
      const own = "role" in meta ? colour[meta.role] : colour.numbers[meta.number % colour.numbers.length];
      trace.marker = Object.assign({}, trace.marker, { color: own });
      trace.line = Object.assign({}, trace.line, { color: own });
      for (const error of [trace.error_x, trace.error_y]) {
        if (error) { error.color = own; }
      }
    }
    for (const shape of copy.layout.shapes || []) { shape.line.color = colour[shape.name]; }
    for (const flag of copy.layout.annotations || []) { flag.font = { color: colour[flag.name] }; }
    const axis = { gridcolor: colour.line, zerolinecolor: colour.line, linecolor: colour.line };
    Object.assign(copy.layout, {
      paper_bgcolor: colour.back,
      plot_bgcolor: colour.back,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour.text },
      hoverlabel: { bgcolor: colour.back, bordercolor: colour.line, font: { color: colour.text } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour.quiet, activecolor: colour.text },
    });
    Object.assign(copy.layout.xaxis, axis);
    Object.assign(copy.layout.yaxis, axis);
    return copy;
  }

  function draw(node) {
    const figure = painted(figures[Number(node.dataset.plot)], colours());
    if (!shown.has(node)) { node.replaceChildren(); }
    shown.add(node);
    return Plotly.react(node, figure.data, figure.layout, config);
  }

  function choose(host) {
    for (const node of document.querySelectorAll("[data-host]")) {
      node.hidden = host !== "" && node.dataset.host !== "" && node.dataset.host !== host;
    }
    window.dispatchEvent(new Event("resize"));  // what was hidden is as wide as the page is now
  }

  document.documentElement.classList.add("scripted");
  const select = document.getElementById("host");
  if (select) { select.addEventListener("change", () => choose(select.value)); }
  dark.addEventListener("change", () => shown.forEach(draw));
  if (nodes.length <= few) {
    nodes.forEach(draw);
  } else {
    const eye = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          eye.unobserve(entry.target);
          draw(entry.target);
        }
      }
    }, { rootMargin: "600px" });
    nodes.forEach((node) => eye.observe(node));
  }
})();
