// Draws what a view describes, and changes only what differs from what is there: focus, selection, scrolling and opened
// sections stay. Text becomes text nodes and nothing else. There is no way from here to markup, because most of what this
// page shows was written by servers that nobody vouches for.

const SVG = "http://www.w3.org/2000/svg";

/** What was last drawn into an element: `{ tag, key, props, children }`. */
const drawn = new WeakMap();

/**
 * Describes an element. Besides attributes, `props` may have:
 * - `key`: the same thing as the one with this key last time, wherever it was among its siblings;
 * - `on`: handlers by event name;
 * - `once`: properties for a new element, which are the user's afterwards (`value`, `open`);
 * - `live`: properties that are set whenever they are not so (`value` of a choice);
 * - `island`: called with a new element whose content is its own business from then on.
 */
export function h(tag, props, ...children) {
  return { tag, key: props?.key, props: props ?? {}, children: flatten(children) };
}

function flatten(children) {
  const flat = [];
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === true) continue;
    flat.push(typeof child === "object" ? child : String(child));
  }
  return flat;
}

/** Makes the children of `parent` what `children` describes. */
export function draw(parent, ...children) {
  const focused = document.activeElement;
  drawChildren(parent, flatten(children));
  // Moving an element takes the focus from it.
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function drawChildren(parent, wanted) {
  const keyed = new Map();
  const others = [];
  for (const node of parent.childNodes) {
    const key = drawn.get(node)?.key;
    if (key === undefined) others.push(node);
    else keyed.set(key, node);
  }
  const nodes = wanted.map((child) => {
    const node = reusable(child, keyed, others);
    return node ? update(node, child) : create(parent, child);
  });
  const kept = new Set(nodes);
  for (const node of [...parent.childNodes]) if (!kept.has(node)) node.remove();
  let place = parent.firstChild;
  for (const node of nodes) {
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
}

/** What is there already and can become this child. Of those without a key only the next one can. */
function reusable(child, keyed, others) {
  if (typeof child === "string") return others[0]?.nodeType === Node.TEXT_NODE ? others.shift() : null;
  if (child.key !== undefined) {
    const node = keyed.get(child.key);
    keyed.delete(child.key);
    return node && drawn.get(node).tag === child.tag ? node : null;
  }
  return drawn.get(others[0])?.tag === child.tag ? others.shift() : null;
}

function create(parent, child) {
  if (typeof child === "string") return document.createTextNode(child);
  const space = child.tag === "svg" || parent.namespaceURI === SVG ? SVG : parent.namespaceURI;
  const element = document.createElementNS(space, child.tag);
  drawn.set(element, { tag: child.tag, props: {} });
  update(element, child);
  Object.assign(element, child.props.once);
  child.props.island?.(element);
  return element;
}

function update(node, child) {
  if (typeof child === "string") {
    if (node.data !== child) node.data = child;
    return node;
  }
  const before = drawn.get(node).props;
  drawn.set(node, child);
  for (const name of Object.keys(before)) if (!(name in child.props)) setAttribute(node, name, null);
  for (const [name, value] of Object.entries(child.props)) {
    if (name === "on") listen(node, before.on, value);
    else if (value !== before[name]) setAttribute(node, name, value);
  }
  if (!child.props.island) drawChildren(node, child.children);
  for (const [name, value] of Object.entries(child.props.live ?? {})) if (node[name] !== value) node[name] = value;
  return node;
}

const NOT_ATTRIBUTES = new Set(["key", "on", "once", "live", "island"]);

function setAttribute(element, name, value) {
  if (NOT_ATTRIBUTES.has(name)) return;
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : value);
}

/** Handlers are looked up when something happens, so that a newer description's are called. */
function listen(element, before, now) {
  for (const type of Object.keys(now)) if (!before?.[type]) element.addEventListener(type, handle);
}

function handle(event) {
  drawn.get(event.currentTarget)?.props.on?.[event.type]?.(event);
}
