// Sorts tables by a click on a column's head, and filters their rows. The page works without it.
"use strict";
(() => {
  const tables = [...document.querySelectorAll("table.sorts")];
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim().replace(/,/g, "");
    const number = parseFloat(text);
    return text === "-" || text === "" ? null : Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(b);
  };
  const sort = (table, column, button) => {
    const head = button.parentElement;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].map(row => [value(row, column), row]);
    const known = rows.filter(([of]) => of !== null).sort((a, b) => compare(a[0], b[0]));
    if (!up) known.reverse();
    table.tBodies[0].append(...[...known, ...rows.filter(([of]) => of === null)].map(([, r]) => r));
  };
  for (const table of tables) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column, button));
      head.append(button);
    });
  }
  const show = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", show);
  show();
  const box = document.getElementById("filter");
  const input = box.querySelector("input");
  const said = box.querySelector("output");
  const rows = tables.flatMap(table => [...table.tBodies[0].rows]);
  const texts = rows.map(row => `${row.textContent} ${row.closest("table").dataset.of}`.toLowerCase());
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => {
      row.hidden = !words.every(word => texts[at].includes(word));
      shown += !row.hidden;
    });
    said.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
  box.hidden = !tables.length;
})();
