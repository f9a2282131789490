// Charts of time (uPlot) and sparklines. Colours are read from the theme when a chart is made.

import { h, svg } from "./dom.js";
import { count } from "./format.js";

const charts = new Set();
addEventListener("resize", () => charts.forEach((chart) => chart.fit()));
addEventListener("bugle-theme", () => charts.forEach((chart) => chart.make()));

/** What a colour of the theme is now. */
function colour(name) {
  const probe = h("span", { style: { color: `var(--${name})`, display: "none" } });
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/**
 * A chart over time. `series`: [{label, colour, key, fill}]; `format` spells values.
 * `draw(points, span)` takes [{at, [key]: number|null}], `at` in seconds, and from when to when if not all of it is there.
 */
export function timeChart({ series, format = count, height = 190, label }) {
  const legend = h("div.legend");
  const box = h("div.chart", { role: "img", "aria-label": label, style: { height: `${height}px` } });
  const self = { box, legend, draw, make, fit, end };
  let plot = null;
  let span = null;
  let data = [[], ...series.map(() => [])];

  const values = series.map((one) => {
    const value = h("b", "–");
    legend.append(h("span", h("i", { style: { background: `var(--${one.colour})` } }), one.label, value));
    return value;
  });

  function make() {
    if (!box.isConnected) return;
    plot?.destroy();
    const [ink, line] = [colour("ink-3"), colour("line")];
    const axis = { stroke: ink, font: '11px "Inter", sans-serif', grid: { stroke: line, width: 1 }, ticks: { show: false } };
    plot = new uPlot(
      {
        width: box.clientWidth,
        height,
        padding: [10, 26, 0, 0],
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        scales: { x: { time: true, range: (_, low, high) => span ?? [low ?? 0, high ?? 1] }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, Number.EPSILON + 1)] } },
        axes: [
          { ...axis, size: 26, space: 70, values: (_, splits) => times(splits) },
          { ...axis, size: 52, space: 34, values: (_, splits) => splits.map(format) },
        ],
        series: [
          {},
          ...series.map((one) => {
            const stroke = colour(one.colour);
            const fill = one.fill ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.10)") : undefined;
            return { label: one.label, stroke, fill, width: 1.6, points: { show: (_, at) => data[at]?.filter((value) => value !== null).length <= 2, size: 5 }, spanGaps: one.gaps ?? false };
          }),
        ],
        hooks: { setCursor: [() => told(plot?.cursor.idx)] },
      },
      data,
      box,
    );
  }

  function told(index) {
    const at = index ?? data[0].length - 1;
    series.forEach((_, n) => {
      const value = data[n + 1][at];
      values[n].textContent = value === null || value === undefined ? "–" : format(value);
    });
  }

  function draw(points, between = null) {
    span = between;
    data = [points.map((point) => point.at), ...series.map((one) => points.map((point) => point[one.key] ?? null))];
    if (!plot) make();
    plot?.setData(data);
    told(plot?.cursor.idx);
  }

  function fit() {
    if (plot && box.clientWidth) plot.setSize({ width: box.clientWidth, height });
  }

  function end() {
    charts.delete(self);
    plot?.destroy();
    plot = null;
  }

  charts.add(self);
  return self;
}

/** Times of an axis: with seconds if any of them has some. */
function times(all) {
  const second = all.some((at) => at % 60) ? "2-digit" : undefined;
  return all.map((at) => new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second }));
}

/** A line without axes, as far as values are known: the last `span` of them. `lines`: [{values, colour}]. All share one scale. */
export function spark(lines, { width = 120, height = 24, span = 60 } = {}) {
  const drawing = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  // What nothing is known of has a ground, and no line.
  drawing.append(svg("path", { class: "ground", d: `M0,${height - 1}H${width}` }));
  const most = Math.max(...lines.flatMap((line) => line.values.map((value) => value ?? 0)), 1e-9);
  for (const { values, colour: name } of lines) {
    if (values.length < 2) continue;
    const step = width / (span - 1);
    const begin = width - (values.length - 1) * step;
    const points = values.map((value, n) => `${(begin + n * step).toFixed(1)},${(height - 1 - ((value ?? 0) / most) * (height - 3)).toFixed(1)}`);
    const path = `M${points.join("L")}`;
    // Through the object model: the policy of the page refuses style attributes.
    const area = svg("path", { class: "area", d: `${path}L${width},${height}L${begin.toFixed(1)},${height}Z` });
    const line = svg("path", { d: path });
    area.style.fill = line.style.stroke = `var(--${name})`;
    drawing.append(area, line);
  }
  return drawing;
}
