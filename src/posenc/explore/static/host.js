/** Where the page lives: a document of its own, or an element of somebody else's, as in a notebook. */

function own() {
  return {
    get root() { return document; },
    get page() { return document.body; },
    get shell() { return document.documentElement; },
    alone: true,
    read: () => location.hash,
    replace: (hash) => history.replaceState(null, "", hash),
    push: (hash) => history.pushState(null, "", hash),
    // A frame of another page is as high as its picture asks, so the picture cannot ask the frame.
    height: () => (parent === window ? innerHeight : 700),
  };
}

/**
 * Builds the page into an element, behind a shadow root that keeps styles and ids apart.
 * `html` and `css` are the texts of index.html and of the style sheet; `ask` answers a query (an
 * object of texts) with the bytes of a frame; `state` is a hash to begin with, and `changed` is told
 * of every other; `height` is the room in CSS pixels.
 */
function within(element, { html, css, ask, state = "", changed = () => {}, height = 700 }) {
  const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  root.adoptedStyleSheets = [sheet];
  const page = document.createElement("div");
  page.className = "page inside";
  page.append(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  for (const node of page.querySelectorAll("script, noscript, .skip, #copy-link, #save")) node.remove();
  root.replaceChildren(page);
  let hash = state;
  const keep = (next) => changed((hash = next));
  const read = () => hash;
  return { root, page, shell: page, alone: false, ask, read, replace: keep, push: keep, height: () => height };
}

/** In the bundle `mount` gives its arguments; a module by itself is the page of its document. */
export const host = typeof $mount === "undefined" || !$mount.length ? own() : within(...$mount);
