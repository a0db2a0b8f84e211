// Asks for new results every second and shows what they come to.
"use strict";
(() => {
  const LATEST = 200;
  const base = location.pathname === "/" ? "/0" : location.pathname.replace(/\/$/, "");
  const all = [], optima = new Map(), families = new Set();
  let last = 0;
  const at = id => document.getElementById(id);
  const percent = x => x === null ? "-" : `${(100 * x).toFixed(1)} %`;
  const number = x => x === null ? "-" : x.toLocaleString("en");
  const median = xs => xs.length % 2 ? xs[xs.length >> 1]
    : (xs[xs.length / 2 - 1] + xs[xs.length / 2]) / 2;
  const excess = row => {
    const optimum = optima.get(row.hash);
    if (optimum === undefined || row.objective === null) return null;
    return optimum ? row.objective / optimum - 1 : row.objective ? null : 0;
  };
  const fill = (body, rows) => body.replaceChildren(...rows.map(cells => {
    const row = document.createElement("tr");
    cells.forEach((cell, column) => {
      const element = document.createElement(column ? "td" : "th");
      if (!column) element.scope = "row";
      element.append(cell);
      row.append(element);
    });
    return row;
  }));
  const link = row => {
    if (!row.solution) return "";
    const a = document.createElement("a");
    a.href = `${base}/schedule/${row.id}`;
    a.textContent = "draw";
    a.setAttribute("aria-label", `draw ${row.instance} by ${row.method}`);
    return a;
  };
  const draw = () => {
    const family = at("family").value;
    const words = at("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = all.filter(row => (!family || row.family.split(" | ").includes(family))
      && words.every(word => `${row.instance} ${row.method}`.toLowerCase().includes(word)));
    const groups = new Map();
    for (const row of shown) {
      const name = `${row.problem}: ${row.method}`;
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(row);
    }
    fill(at("methods").tBodies[0], [...groups].sort().map(([name, rows]) => {
      const found = rows.map(excess).filter(x => x !== null).sort((a, b) => a - b);
      const best = found.length ? [median(found), found.at(-1),
        found.filter(x => x === 0).length / found.length] : [null, null, null];
      return [name, number(rows.length), number(found.length), ...best.map(percent)];
    }));
    fill(at("latest").tBodies[0], shown.slice(-LATEST).reverse().map(row => [row.instance,
      row.family, row.method, row.status, number(row.objective), number(row.bound),
      percent(excess(row)), row.seconds.toFixed(3), link(row)]));
  };
  const progress = (campaign, waiting) => {
    const bar = at("progress"), said = at("said");
    if (!campaign) {
      bar.hidden = true;
      said.textContent = `${number(all.length)} results in the store`;
      return;
    }
    bar.max = Math.max(campaign.total, 1);
    bar.value = campaign.done;
    const failed = campaign.failed ? `, ${campaign.failed} failed` : "";
    said.textContent = waiting ? "Reading the store"
      : `${number(campaign.done)} of ${number(campaign.total)} solves done${failed}`;
    at("running").hidden = !campaign.running.length;
    fill(at("running").querySelector("tbody"), campaign.running.map(one => [one.instance,
      one.method, one.seconds.toFixed(0), number(one.objective), number(one.bound)]));
  };
  const ask = async () => {
    try {
      const answer = await fetch(`${base}/results?after=${last}`);
      if (!answer.ok) throw new Error(await answer.text());
      const found = await answer.json();
      for (const [hash, optimum] of Object.entries(found.known)) optima.set(hash, optimum);
      for (const row of found.rows) {
        all.push(row);
        last = row.id;
        if (row.proven) optima.set(row.hash, row.objective);
        for (const name of row.family.split(" | ")) {
          if (families.has(name)) continue;
          families.add(name);
          at("family").append(new Option(name, name));
        }
      }
      if (found.rows.length || last === 0) draw();
      progress(found.campaign, found.more);
      setTimeout(ask, found.more ? 0 : 1000);
    } catch (error) {
      at("said").textContent = "The campaign, or the server that showed it, has ended.";
      at("running").hidden = true;
    }
  };
  at("family").addEventListener("change", draw);
  at("filter").addEventListener("input", draw);
  ask();
})();
