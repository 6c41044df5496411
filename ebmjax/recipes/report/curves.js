"use strict";
// Draws the curves of a page, whose numbers are its JSON, in place of the picture that is there.
(() => {
  const place = document.getElementById("curves");
  const panels = JSON.parse(place.querySelector("script").textContent);
  const number = (v) => {
    if (v == null) return "";
    const size = Math.abs(v);
    if (size && (size < 1e-3 || size >= 1e6)) return v.toExponential(3).replace(/\.?0+e/, "e");
    return String(+v.toPrecision(5));
  };
  const whole = [];
  for (let power = 1; power < 1e15; power *= 10) whole.push(power, 2 * power, 5 * power);

  const nearest = (u, series, index) => {
    const values = u.data[series];
    for (let far = 0; far < values.length; far++) {
      if (values[index - far] != null) return index - far;
      if (values[index + far] != null) return index + far;
    }
    return index;
  };
  const seen = (u, value, series, index) => {
    if (value == null) return "–";
    const at = index == null || index === u.cursor.idx ? "" : ` (step ${u.data[0][index]})`;
    return number(value) + at;
  };

  const isBand = (u, series) => u.series[series]?.class === "band";
  const hideBand = (u, series, { show }) => {
    if (show != null && !isBand(u, series) && isBand(u, series + 1)) u.setSeries(series + 1, { show });
  };

  const draw = ({ title, log, lines }) => {
    const tables = [], bands = [], series = [{ label: "step", value: (u, v) => v ?? "–" }];
    for (const { name, colour, dash, steps, values, low, high } of lines) {
      const points = { show: steps.length <= 25, size: 5 };
      series.push({ label: name, stroke: colour, width: 1.5, dash, points, value: seen });
      tables.push([steps, values, ...(low ? [high, low] : [])]);
      if (!low) continue;
      const at = series.length;
      for (let i = 0; i < 2; i++) series.push({ class: "band", points: { show: false } });
      bands.push({ series: [at, at + 1], fill: colour + "33" });
    }
    const holder = document.createElement("div");
    place.querySelector(".live").append(holder);
    const font = "11px system-ui, sans-serif";
    const plot = new uPlot({
      title, series, bands, width: holder.clientWidth, height: 200,
      scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
      axes: [
        { incrs: whole, font, size: 28, space: 36 },
        { font, size: 58, values: (u, ticks) => ticks.map(number) },
      ],
      hooks: { setSeries: [hideBand] },
      cursor: { dataIdx: nearest, sync: { key: "step", scales: ["x", null] } },
    }, uPlot.join(tables), holder);
    addEventListener("resize", () => plot.setSize({ width: holder.clientWidth, height: 200 }));
  };
  panels.forEach(draw);
  place.querySelector(".still").hidden = true;
})();
