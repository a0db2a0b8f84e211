// What is wrong with a page of the site, as a reader would see it: a list of lines "kind: text".
// `doc` is the page's document, laid out in a frame; `wide` says that nothing may scroll sideways.
function problemsOf(doc, wide) {
  const found = [];
  const view = doc.defaultView;
  const style = (of) => view.getComputedStyle(of);
  const short = (text) => text.trim().replace(/\s+/g, " ").slice(0, 60);
  const article = doc.querySelector("article");
  const all = (selector, within = article) => [...within.querySelectorAll(selector)];
  const shown = (of) => of.getClientRects().length > 0 && style(of).visibility === "visible";
  const scrolls = (of) => of.scrollWidth > of.clientWidth + 1;
  const still = doc.createElement("style");  // a colour on its way to another is no colour
  still.textContent = "* { transition: none !important; }";
  doc.head.append(still);
  const right = article.getBoundingClientRect().right + 1;

  // Formulas stay in their sentences, and are whole.
  for (const formula of all("math").filter(shown)) {
    let cut = false;
    let scroller = false;
    for (let box = formula; box !== article; box = box.parentElement) {
      if (style(box).float !== "none") found.push(`floating formula: ${short(formula.textContent)}`);
      if (style(box).overflowX === "visible" || style(box).display === "inline") continue;
      scroller ||= style(box).overflowX !== "hidden";
      cut ||= scrolls(box) && (wide || style(box).overflowX === "hidden") && !box.closest("table, .md-typeset__scrollwrap");
    }
    cut ||= formula.getBoundingClientRect().right > right && !scroller;
    if (cut) found.push(`clipped formula: ${short(formula.textContent)}`);
  }

  // A table that was split is text with bars.
  for (const text of all("p, li").filter(shown)) {
    const own = [...text.childNodes].map((n) => (n.nodeType === 3 ? n.textContent : "x")).join("");
    if (/^\s*\||\|.*\|.*\|/.test(own)) found.push(`raw pipe: ${short(text.textContent)}`);
  }

  // Code that goes on beyond its edge says so, as tables do; on a wide page none does.
  for (const code of all("pre").filter(shown)) {
    const hint = /gradient/.test(style(code).backgroundImage) && /local/.test(style(code).backgroundAttachment);
    const covered = all("code", code).some((of) => alpha(style(of).backgroundColor) > 0);
    if (scrolls(code) && (wide || !hint || covered)) found.push(`cut code: ${short(code.textContent)}`);
    if (scrolls(code) && code.tabIndex < 0) found.push(`code without keyboard: ${short(code.textContent)}`);
  }
  if (doc.documentElement.scrollWidth > doc.documentElement.clientWidth + 1) found.push("page wider than its window: ");

  // Accessibility, as far as the document says it.
  if (!doc.documentElement.lang) found.push("no language: ");
  for (const image of all("img, svg[role=img]", doc.body)) {
    if (!(image.getAttribute("alt") || image.getAttribute("aria-label"))) found.push(`no alternative text: ${image.src}`);
  }
  for (const control of all("a[href], button, input:not([type=hidden]), select", doc.body).filter(shown)) {
    if (control.closest("[aria-hidden=true]")) continue;
    const inside = all("[alt], [aria-label], title", control).map((of) => of.getAttribute("alt") || of.getAttribute("aria-label") || of.textContent);
    const name = control.textContent + inside.join("") + ["aria-label", "title", "placeholder"].map((a) => control.getAttribute(a) || "").join("");
    const labelled = control.labels && control.labels.length;
    if (!name.trim() && !labelled) found.push(`no name: ${control.outerHTML.slice(0, 80)}`);
  }
  const levels = all("h1, h2, h3, h4, h5, h6").map((of) => Number(of.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) found.push("not one title: ");
  levels.forEach((level, at) => { if (at && level > levels[at - 1] + 1) found.push(`heading order: h${levels[at - 1]}, h${level}`); });
  const ids = all("[id]", doc.documentElement).map((of) => of.id);
  for (const id of new Set(ids.filter((of, at) => ids.indexOf(of) !== at))) found.push(`id twice: ${id}`);

  // Contrast of text with its ground, in both colour schemes (WCAG 2.1, 1.4.3).
  for (const scheme of ["default", "slate"]) {
    doc.body.setAttribute("data-md-color-scheme", scheme);
    const seen = new Set();
    for (const of of all("*").filter(shown)) {
      const text = [...of.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent).join("").trim();
      if (!text || of.closest("svg, .headerlink")) continue;
      const ratio = contrast(of, style);
      const size = parseFloat(style(of).fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style(of).fontWeight) >= 700);
      const key = `${style(of).color} ${of.className}`;
      if (ratio < (large ? 3 : 4.5) && !seen.has(key)) {
        seen.add(key);
        found.push(`contrast: ${ratio.toFixed(1)} in ${scheme}: ${short(text)}`);
      }
    }
  }
  return found;
}

function channels(colour) {
  const [r, g, b, a = 1] = colour.match(/[\d.]+/g).map(Number);
  return { rgb: /^color/.test(colour) ? [r * 255, g * 255, b * 255] : [r, g, b], a };
}

function alpha(colour) {
  return channels(colour).a;
}

function over(top, a, ground) {
  return top.map((value, at) => value * a + ground[at] * (1 - a));
}

// The ground is what the nearest boxes paint, over white; a text takes its own and its boxes' opacity.
function contrast(of, style) {
  const boxes = [];
  let opacity = 1;
  for (let box = of; box; box = box.parentElement) {
    boxes.unshift(channels(style(box).backgroundColor));
    opacity *= Number(style(box).opacity);
  }
  const ground = boxes.reduce((below, { rgb, a }) => over(rgb, a, below), [255, 255, 255]);
  const { rgb, a } = channels(style(of).color);
  const [light, dark] = [luminance(over(rgb, a * opacity, ground)), luminance(ground)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((of) => (of / 255 <= 0.03928 ? of / 255 / 12.92 : ((of / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
