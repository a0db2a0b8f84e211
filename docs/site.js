// The theme makes each copy button a landmark without a name; a page has one for every block of code.
let blocks = 0;
new MutationObserver(() => {
  for (const box of document.querySelectorAll("nav.md-code__nav:not([aria-label])")) {
    blocks += 1;
    box.setAttribute("aria-label", `Code block ${blocks}`);
  }
}).observe(document.body, { childList: true, subtree: true });
