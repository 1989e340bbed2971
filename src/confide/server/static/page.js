// Draws charts, refreshes previews, and adds a slider. The pages also work without this file.
import interpreter from "/static/vendor/vega-interpreter/expression.js";

const ENDS = { share: [0.0001, 1], epsilon: [0.001, 10], error: [0.5, 100000] };
const dark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const ink = dark.matches ? "#c2c7d0" : "#373c44";
  const line = dark.matches ? "#30363d" : "#e3e6ea";
  return {
    background: null,
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: line, tickColor: line },
    axisX: { labelOverlap: "greedy", labelSeparation: 6 },
    legend: { labelColor: ink, titleColor: ink },
    title: { color: ink },
    mark: { color: "#2f6db5" },
    rule: { color: ink },
  };
}

function draw(place) {
  const { hconcat, ...rest } = JSON.parse(place.dataset.spec);
  const panels = hconcat && { [innerWidth < 700 ? "vconcat" : "hconcat"]: hconcat };
  const spec = { ...rest, ...panels, config: theme() };
  if (spec.width) spec.width = Math.min(spec.width, place.parentElement.clientWidth - 80);
  const runtime = vega.parse(vegaLite.compile(spec).spec, null, { ast: true });
  const view = new vega.View(runtime, { expr: interpreter, renderer: "svg" });
  place.replaceChildren();
  view.initialize(place).runAsync().then(() => place.setAttribute("data-drawn", "yes"));
}

function drawAll() {
  for (const place of document.querySelectorAll(".chart[data-spec]")) draw(place);
}

function round(value) {
  return String(Number(value.toPrecision(2)));
}

// When the query changes, request a new preview, and disable the buttons that pay for the old one.
function watch() {
  const form = document.getElementById("question");
  if (!form) return;
  const written = () => new URLSearchParams(new FormData(form)).toString();
  let previewed = written();
  form.addEventListener("input", () => {
    for (const pay of document.querySelectorAll("#preview .pay")) pay.setAttribute("disabled", "");
  });
  const refresh = () => {
    if (written() === previewed || !form.checkValidity()) return;
    previewed = written();
    form.dispatchEvent(new Event("preview"));
  };
  // Wait, because a click on the button causes a change and a submit, and the submit is enough.
  form.addEventListener("change", (event) => {
    if (event.target.id !== "sql") setTimeout(refresh, 250);
  });
  form.addEventListener("submit", () => { previewed = written(); });
}

function slide() {
  const [slider, amount, by] = ["slider", "amount", "by"].map((id) => document.getElementById(id));
  if (!slider) return;
  slider.closest(".script-only").hidden = false;
  const ends = () => ENDS[by.value];
  const setSlider = () => {
    const [top, bottom = 1] = amount.value.split("/").map(parseFloat);
    const value = top / bottom / (amount.value.includes("%") ? 100 : 1);
    const [low, high] = ends();
    if (value > 0) slider.value = 100 * Math.log(value / low) / Math.log(high / low);
  };
  slider.addEventListener("input", () => {
    const [low, high] = ends();
    amount.value = round(low * (high / low) ** (slider.value / 100));
  });
  slider.addEventListener("change", () => amount.dispatchEvent(new Event("change", { bubbles: true })));
  amount.addEventListener("input", setSlider);
  by.addEventListener("input", () => { slider.value = 50; slider.dispatchEvent(new Event("input")); });
  setSlider();
}

watch();
slide();
drawAll();
dark.addEventListener("change", drawAll);
document.addEventListener("htmx:after:swap", drawAll);
