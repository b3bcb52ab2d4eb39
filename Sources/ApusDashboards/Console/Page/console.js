"use strict";
// Draws Grafana dashboards of the classic model from Prometheus' own API: as much of the model as the dashboards here use.

const dashboards = JSON.parse(document.getElementById("dashboards").textContent);
const parameters = new URLSearchParams(location.search);
const ranges = { "5m": 300, "15m": 900, "1h": 3600, "6h": 21600, "1d": 86400, "7d": 604800 };
const palette = ["#3f7fd0", "#d9822b", "#3b9c5a", "#c2466b", "#7c61c9", "#1f9ea3", "#a8862b", "#7a8190", "#d05fb0", "#5e9e2e"];
const colors = { red: "#d4453c", orange: "#d9822b", green: "#3b9c5a", text: "inherit" };
const pointsMax = 240;
const rangeChoice = document.getElementById("range");
let drawing = 0;

function element(name, attributes, ...children) {
  const isDrawing = ["svg", "path", "line", "text", "rect", "g", "title"].includes(name);
  const node = isDrawing ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// A value in the words of its unit.
function format(value, unit) {
  if (value === null || !isFinite(value)) return "–";
  const digits = (number) => number === 0 ? "0" : Math.abs(number) >= 100 ? number.toFixed(0)
    : Math.abs(number) >= 10 ? number.toFixed(1) : number.toPrecision(2).replace(/\.?0+$/, (zeros) => zeros.includes(".") ? "" : zeros);
  const scaled = (number, steps) => {
    for (const [size, name] of steps) if (Math.abs(number) >= size) return digits(number / size) + name;
    const last = steps[steps.length - 1];
    return digits(number / last[0]) + last[1];
  };
  switch (unit) {
    case "s":
      return value === 0 ? "0 s" : scaled(value, [[86400, " d"], [3600, " h"], [60, " min"], [1, " s"], [1e-3, " ms"], [1e-6, " µs"]]);
    case "percentunit": return (value * 100).toFixed(Math.abs(value) >= 0.9995 || value === 0 ? 0 : 2).replace(/\.00$/, "") + " %";
    case "bytes": return scaled(value, [[2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"], [1, " B"]]);
    case "Bps": return scaled(value, [[1e9, " GB/s"], [1e6, " MB/s"], [1e3, " kB/s"], [1, " B/s"]]);
    case "ops": return Math.abs(value) < 1 ? digits(value) + "/s" : scaled(value, [[1e6, " M/s"], [1e3, " k/s"], [1, "/s"]]);
    default: return Math.abs(value) < 1 ? digits(value) : scaled(value, [[1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""]]);
  }
}

function legendOf(target, labels) {
  const open = String.fromCharCode(123).repeat(2), close = String.fromCharCode(125).repeat(2);
  if (!target.legendFormat) return Object.values(labels).filter((label) => label !== labels.__name__).join(" ");
  return target.legendFormat.split(open).map((part, place) => {
    if (place === 0) return part;
    const end = part.indexOf(close);
    return (labels[part.slice(0, end).trim()] || "") + part.slice(end + 2);
  }).join("");
}

function concrete(expression, dashboard, range, step) {
  const rate = parameters.get("rate") || Math.max(60, step + 15) + "s";
  let text = expression.replaceAll("$__rate_interval", rate).replaceAll("$__range", range + "s").replaceAll("$__interval", step + "s");
  for (const variable of dashboard.templating.list) {
    if (variable.type === "query") text = text.replaceAll("$" + variable.name, parameters.get(variable.name) || variable.allValue);
  }
  return text;
}

async function ask(path, question) {
  const answer = await fetch("../api/v1/" + path, { method: "POST", body: new URLSearchParams(question) });
  const body = await answer.json();
  if (body.status !== "success") throw new Error(body.error);
  return body.data.result;
}

// The lines of a panel: a name, and a value or null for each step.
async function load(panel, dashboard, time) {
  const series = [];
  for (const target of panel.targets) {
    const query = concrete(target.expr, dashboard, time.range, time.step);
    if (target.instant) {
      for (const row of await ask("query", { query, time: time.end })) series.push({ labels: row.metric });
      continue;
    }
    for (const line of await ask("query_range", { query, start: time.start, end: time.end, step: time.step })) {
      const values = new Array(time.count).fill(null);
      for (const [at, value] of line.values) values[Math.round((at - time.start) / time.step)] = value === "NaN" ? null : Number(value);
      series.push({ labels: line.metric, name: legendOf(target, line.metric), values });
    }
  }
  return series;
}

function last(values) {
  for (let place = values.length - 1; place >= 0; place -= 1) if (values[place] !== null && isFinite(values[place])) return values[place];
  return null;
}

// An axis with round steps around what is to be seen: its ends, which are steps too, and the steps.
function axis(least, largest, unit) {
  const span = largest - least || 1;
  const base = unit === "bytes" ? 2 ** (10 * Math.floor(Math.log2(span) / 10)) : 1;
  const raw = span / base / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw) * base;
  const first = Math.floor(least / step + 1e-6), last = Math.max(first + 1, Math.ceil(largest / step - 1e-6));
  const list = [];
  for (let number = first; number <= last; number += 1) list.push(number * step);
  return { least: first * step, largest: last * step, ticks: list };
}

function frame(box, panel, least, largest, time) {
  const width = Math.max(120, box.clientWidth - 18), height = Math.max(50, box.clientHeight - 64);
  const left = 52, bottom = 14;
  const x = (place) => left + (width - left - 6) * place / Math.max(1, time.count - 1);
  const y = (value) => (height - bottom) - (height - bottom - 6) * (value - least) / ((largest - least) || 1);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" });
  for (let part = 0; part <= 3; part += 1) {
    const at = new Date((time.start + time.range * part / 3) * 1000);
    const words = time.range > 86400 ? at.toISOString().slice(5, 10) : at.toISOString().slice(11, time.range < 1200 ? 19 : 16);
    svg.append(element("text", { x: x((time.count - 1) * part / 3), y: height - 2, "text-anchor": ["start", "middle", "middle", "end"][part] }, words));
  }
  return { svg, x, y, left, width, height, bottom };
}

function drawLines(box, panel, series, time) {
  const unit = panel.fieldConfig.defaults.unit;
  const custom = panel.fieldConfig.defaults.custom || {};
  const isStacked = custom.stacking && custom.stacking.mode === "normal";
  const below = new Array(time.count).fill(0);
  const lines = series.map((line) => {
    if (!isStacked) return { ...line, floor: null, top: line.values };
    const floor = below.slice();
    const top = line.values.map((value, place) => { below[place] += value || 0; return below[place]; });
    return { ...line, floor, top };
  });
  const all = lines.flatMap((line) => line.top).filter((value) => value !== null && isFinite(value));
  if (all.length === 0) throw new Error("no data");
  const { least, largest, ticks } = axis(Math.min(0, ...all), Math.max(...all) || 1, unit);
  const { svg, x, y, left, width } = frame(box, panel, least, largest, time);
  for (const tick of ticks) {
    svg.append(element("line", { class: "grid", x1: left, x2: width - 6, y1: y(tick), y2: y(tick) }));
    svg.append(element("text", { x: left - 5, y: y(tick) + 3, "text-anchor": "end" }, format(tick, unit)));
  }
  const legend = element("div", { class: "legend" });
  lines.forEach((line, number) => {
    const color = palette[number % palette.length];
    let path = "", isDown = false, area = "";
    line.top.forEach((value, place) => {
      if (value === null || !isFinite(value)) { isDown = false; return; }
      path += `${isDown ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`;
      isDown = true;
    });
    if (isStacked) {
      area = line.top.map((value, place) => `${place ? "L" : "M"}${x(place).toFixed(1)} ${y(value).toFixed(1)}`).join("")
        + line.floor.map((value, place) => `L${x(place).toFixed(1)} ${y(value).toFixed(1)}`).reverse().join("") + "Z";
      svg.append(element("path", { d: area, fill: color, "fill-opacity": 0.4 }));
    }
    svg.append(element("path", { d: path, fill: "none", stroke: color, "stroke-width": 1.5, "vector-effect": "non-scaling-stroke" },
      element("title", {}, line.name)));
    legend.append(element("span", {}, element("i", { style: `background:${color}` }), `${line.name} ${format(last(line.values), unit)}`));
  });
  box.append(svg, legend);
}

function drawStat(box, panel, series) {
  const { unit, thresholds } = panel.fieldConfig.defaults;
  const numbers = series.map((line) => ({ name: line.name, value: last(line.values) })).filter((line) => line.value !== null);
  if (numbers.length === 0) throw new Error("no data");
  const row = element("div", { class: "stats" });
  for (const { name, value } of numbers) {
    let color = "text";
    for (const step of thresholds.steps) if (step.value === null || value >= step.value) color = step.color;
    const number = element("div", { class: "big", style: `color:${colors[color]}` }, format(value, unit));
    row.append(numbers.length === 1 ? number : element("div", {}, element("div", { class: "legend" }, name), number));
  }
  box.append(row);
}

function drawHeatmap(box, panel, series, time) {
  const unit = panel.fieldConfig.defaults.unit;
  const buckets = series.filter((line) => line.labels.le !== undefined)
    .sort((one, other) => Number(one.labels.le.replace("+Inf", "Infinity")) - Number(other.labels.le.replace("+Inf", "Infinity")));
  if (buckets.length === 0) throw new Error("no data");
  const counts = buckets.map((bucket, number) => bucket.values.map((value, place) =>
    value === null ? null : Math.max(0, value - (number ? buckets[number - 1].values[place] || 0 : 0))));
  const largest = Math.max(1e-12, ...counts.flat().filter((value) => value !== null));
  const { svg, x, left, width, height, bottom } = frame(box, panel, 0, buckets.length, time);
  const rise = (height - bottom - 4) / buckets.length;
  const across = (width - left - 6) / Math.max(1, time.count - 1);
  counts.forEach((row, number) => {
    const top = height - bottom - rise * (number + 1);
    if (number % Math.ceil(buckets.length / 6) === 0) {
      const bound = buckets[number].labels.le;
      svg.append(element("text", { x: left - 5, y: top + rise, "text-anchor": "end" }, bound === "+Inf" ? "more" : format(Number(bound), unit)));
    }
    row.forEach((value, place) => {
      if (!value) return;
      svg.append(element("rect", { x: x(place) - across / 2, y: top, width: across + 0.3, height: rise - 0.5,
        fill: palette[0], "fill-opacity": (0.12 + 0.88 * Math.sqrt(value / largest)).toFixed(2) }));
    });
  });
  box.append(svg);
}

function drawTable(box, panel, series) {
  if (series.length === 0) throw new Error("no data");
  const names = [...new Set(series.flatMap((row) => Object.keys(row.labels)))].filter((name) => name !== "__name__");
  const head = element("tr", {}, ...names.map((name) => element("th", {}, name)));
  const rows = series.map((row) => element("tr", {}, ...names.map((name) => element("td", {}, row.labels[name] || ""))));
  box.append(element("div", { class: "scroll" }, element("table", {}, head, ...rows)));
}

const drawings = { timeseries: drawLines, stat: drawStat, heatmap: drawHeatmap, table: drawTable };

async function draw() {
  drawing += 1;
  const turn = drawing;
  const dashboard = dashboards.find((one) => "#" + one.uid === location.hash) || dashboards[0];
  for (const link of document.querySelectorAll("nav a")) link.className = link.hash === "#" + dashboard.uid ? "chosen" : "";
  document.getElementById("tables").style.display = dashboard === dashboards[0] ? "" : "none";
  const range = ranges[rangeChoice.value];
  const step = Math.max(1, Math.ceil(range / pointsMax));
  const end = Math.floor(Date.now() / 1000 / step) * step;
  const time = { start: end - range, end, range, step, count: Math.floor(range / step) + 1 };
  const main = document.getElementById("dashboard");
  const boxes = dashboard.panels.map((panel) => {
    const { x, y, w, h } = panel.gridPos;
    const style = `grid-column:${x + 1} / span ${w};grid-row:${y + 1} / span ${h}`;
    return panel.type === "row" ? element("div", { class: "row", style }, panel.title)
      : element("div", { class: "panel", style, title: panel.description }, element("h3", {}, panel.title));
  });
  const lines = await Promise.all(dashboard.panels.map((panel) =>
    panel.type === "row" ? null : load(panel, dashboard, time).catch((error) => error)));
  if (turn !== drawing) return;
  main.replaceChildren(...boxes);
  dashboard.panels.forEach((panel, place) => {
    if (panel.type === "row") return;
    try {
      if (lines[place] instanceof Error) throw lines[place];
      drawings[panel.type](boxes[place], panel, lines[place], time);
    } catch (error) {
      boxes[place].append(element("div", { class: "message" }, error.message));
    }
  });
  document.body.dataset.drawn = dashboard.uid;
}

for (const name of Object.keys(ranges)) rangeChoice.append(element("option", { value: name }, name));
rangeChoice.value = ranges[parameters.get("range")] ? parameters.get("range") : "1h";
for (const dashboard of dashboards) {
  document.getElementById("nav").append(element("a", { href: "#" + dashboard.uid }, dashboard.title.split(" / ")[1]));
}
rangeChoice.addEventListener("change", draw);
addEventListener("hashchange", draw);
draw();
setInterval(draw, 10000);
