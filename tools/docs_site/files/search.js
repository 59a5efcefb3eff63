// Full-text search over the sections of all pages. The index is a script, so that pages opened as
// files have it too, and it is read at the first use of the field.
const box = document.querySelector("input[type=search]");
const results = document.getElementById("results");
const root = document.documentElement.dataset.root;
const SHOWN = 20, BEFORE = 60, EXCERPT = 200;

// Wide windows show the navigation opened.
if (matchMedia("(min-width: 50.01rem)").matches) document.querySelector("nav details").open = true;
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "center" });
scrollTo(0, location.hash ? scrollY : 0);

let loading = null;
function load() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${root}/search-index.js`;
    script.onload = () => resolve(window.SECTIONS.map((section) => [...section, section.map((text) => text.toLowerCase())]));
    script.onerror = reject;
    document.head.append(script);
  });
  return loading;
}

function score(lower, words) {
  let sum = 0;
  for (const word of words) {
    const [inPage, inHeading, inText] = [lower[1], lower[2], lower[3]].map((text) => text.includes(word));
    if (!inPage && !inHeading && !inText) return 0;
    sum += (inPage ? 8 : 0) + (inHeading ? 12 : 0) + (inText ? 1 : 0);
  }
  return lower[3].includes(words.join(" ")) ? sum + 3 : sum;
}

function marked(text, words) {
  const fragment = document.createDocumentFragment();
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  text.split(new RegExp(`(${escaped.join("|")})`, "i")).forEach((part, at) => {
    if (at % 2) fragment.append(Object.assign(document.createElement("mark"), { textContent: part }));
    else fragment.append(part);
  });
  return fragment;
}

function row([address, page, heading, text, lower], words) {
  const link = document.createElement("a");
  link.href = `${root}/${address}`;
  const title = page === heading ? page : `${page}: ${heading}`;
  const at = Math.max(0, Math.min(...words.map((word) => lower[3].indexOf(word)).filter((at) => at >= 0)) - BEFORE) || 0;
  const excerpt = document.createElement("small");
  excerpt.append(marked(text.slice(at, at + EXCERPT), words));
  link.append(title, excerpt);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

async function search() {
  const sections = await load();
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.hidden = !words.length;
  if (!words.length) return;
  const found = sections.map((section) => [score(section[4], words), section]).filter(([points]) => points);
  found.sort(([a], [b]) => b - a);
  results.replaceChildren(...found.slice(0, SHOWN).map(([, section]) => row(section, words)));
  if (!found.length) results.textContent = "Nothing found";
}

box.addEventListener("input", search);
box.addEventListener("focus", load, { once: true });
results.addEventListener("click", () => { results.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) { event.preventDefault(); box.focus(); }
  if (event.key === "Escape") { results.hidden = true; box.blur(); }
  if (event.key === "Enter" && document.activeElement === box) results.querySelector("a")?.click();
});
