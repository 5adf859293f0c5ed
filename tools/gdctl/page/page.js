"use strict";
// The page of `gdctl serve`. Whatever comes from the database becomes text nodes and attributes,
// never markup. Views are hash routes; each asks for its data again a second after it has been
// drawn, as long as it is visible, and what is drawn is merged into what is there: focus,
// selection and scroll positions stay.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// -- elements -------------------------------------------------------------------

// Whether an attribute, a child or a parameter is left out.
const none = x => x === null || x === undefined || x === false || x === "";

// An element, with children that are nodes, texts or lists of them.
function element(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    if (value === "" || !none(value)) made.setAttribute(name, value === true ? "" : value);
  made.append(...children.flat(Infinity).filter(x => !none(x)));
  return made;
}
const h = (tag, attributes, ...children) => element(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  element(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Makes `there` have what `made` has, and keeps what is the same.
function merge(there, made) {
  if (there.nodeType !== made.nodeType || there.nodeName !== made.nodeName
      || there.getAttribute?.("data-key") !== made.getAttribute?.("data-key"))
    return there.replaceWith(made);
  if (there.nodeType === Node.TEXT_NODE) {
    if (there.data !== made.data) there.data = made.data;
    return;
  }
  for (const {name} of [...there.attributes])
    if (!made.hasAttribute(name) && name !== "open") there.removeAttribute(name); // a user has opened it
  for (const {name, value} of made.attributes)
    if (there.getAttribute(name) !== value) there.setAttribute(name, value);
  if (there.type === "checkbox") there.checked = made.hasAttribute("checked");
  if (!there.hasAttribute("data-kept")) put(there, ...made.childNodes);
}

// Merges nodes into what `into` holds. Those with a data-key go where that key was before; what is
// no more goes first, so that what stays needs not move, which would take the focus from it.
function put(into, ...nodes) {
  const all = nodes.flat(Infinity).filter(Boolean)
    .map(x => typeof x === "string" ? document.createTextNode(x) : x);
  const stay = new Set(all.map(x => x.dataset?.key));
  for (const x of [...into.children]) if (x.dataset.key && !stay.has(x.dataset.key)) x.remove();
  const keyed = new Map([...into.children].filter(x => x.dataset.key).map(x => [x.dataset.key, x]));
  let at = into.firstChild;
  for (const made of all) {
    const before = keyed.get(made.dataset?.key);
    if (before && before !== at) into.insertBefore(before, at);
    const there = before ?? at;
    if (!there) { into.append(made); continue; }
    if (!before && keyed.has(there.dataset?.key)) { into.insertBefore(made, there); continue; }
    at = there.nextSibling;
    merge(there, made);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

// What the database holds, as text: apart from the direction of what is around it, and with
// characters that nobody would see, or that turn a line around, as escapes.
const unseen =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const visible = text =>
  String(text).replace(unseen, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const data = text => h("bdi", {}, visible(text));
const cut = (text, length) => text.length > length ? text.slice(0, length - 1) + "…" : text;

const parameters = x => Object.entries(x).filter(([, y]) => !none(y))
  .map(([name, y]) => `${name}=${encodeURIComponent(y)}`).join("&");
const link = (path, ...children) => h("a", {href: "#" + path}, ...children);
const path_of = (view, query = {}) => {
  const text = parameters(query);
  return `/${view}${text && `?${text}`}`;
};
const button = (what, attributes, ...children) =>
  h("button", {type: "button", "data-do": what, ...attributes}, ...children);

// A table that scrolls by itself, with a row for each. Columns are [heading, class, cell of a row].
const table = (label, columns, rows, key) => h("div", {class: "wide"}, h("table", {"aria-label": label},
  h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", {scope: "col", class: kind}, name)))),
  h("tbody", {}, rows.map(x => h("tr", {"data-key": key(x)},
    columns.map(([, kind, cell]) => h("td", {class: kind}, cell(x))))))));

// -- numbers and times ----------------------------------------------------------

let skew_us = 0; // of the server's clock
const now_us = () => Date.now() * 1000 + skew_us;
const heard_clock = us => { if (us) skew_us = us - Date.now() * 1000; };

const count = (n, estimated) => (estimated ? "~" : "") + Number(n).toLocaleString("en");
// Of what was counted up to a bound, which several may share: any number may have a +.
const counted = (n, more) => count(n) + (more ? "+" : "");

function span(us) {
  const s = us / 1e6;
  if (s < 1) return Math.max(0, Math.round(us / 1000)) + " ms";
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (s >= 2 * length) return `${Math.floor(s / length)} ${unit}`;
  return Math.floor(s) + " s";
}

const iso = us => new Date(us / 1000).toISOString();

function when(us) {
  if (us === null || us === undefined) return "–";
  const away = now_us() - us;
  return h("time", {datetime: iso(us), title: iso(us)}, away >= 0 ? `${span(away)} ago` : `in ${span(-away)}`);
}

// JSON's text with indentation. Read as text: numbers stay as they were written.
function pretty(text) {
  const out = [];
  let depth = 0;
  const line = () => "\n" + "  ".repeat(Math.max(0, Math.min(depth, 50))); // however deep it is
  for (let i = 0; i < text.length; ++i) {
    const c = text[i];
    if (c === '"') {
      let end = i + 1;
      while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
      out.push(text.slice(i, end + 1));
      i = end;
    } else if (c === "{" || c === "[") {
      const next = text.slice(i + 1).match(/^\s*([}\]]?)/);
      if (next[1]) { out.push(c, next[1]); i += next[0].length; continue; }
      ++depth;
      out.push(c, line());
    } else if (c === "}" || c === "]") {
      --depth;
      out.push(line(), c);
    } else if (c === ",") {
      out.push(c, line());
    } else if (c === ":") {
      out.push(": ");
    } else if (!/\s/.test(c)) {
      out.push(c);
    }
  }
  return out.join("");
}

// -- plots ----------------------------------------------------------------------

// What a number was over the last minutes. Nulls are gaps.
function plot(name, at_us, values) {
  const last = at_us.at(-1) ?? 0;
  const width = Math.max(60e6, last - (at_us[0] ?? 0));
  const top = Math.max(1, ...values);
  const runs = [[]];
  values.forEach((value, i) => value === null ? runs.push([])
    : runs.at(-1).push([120 - 120 * (last - at_us[i]) / width, 39 - 37 * value / top].map(x => x.toFixed(1))));
  const now = values.at(-1) ?? null;
  const said = now === null ? "–" : count(Math.round(now)) + "/s";
  const most = count(Math.round(Math.max(0, ...values))) + "/s";
  return h("figure", {"data-key": name},
    h("figcaption", {}, h("span", {}, name), h("b", {}, said)),
    s("svg", {class: "plot", viewBox: "0 0 120 40", preserveAspectRatio: "none", role: "img",
        "aria-label": `${name}: now ${said}, at most ${most}`},
      runs.filter(run => run.length > 1).map(run => [
        s("polygon", {points: `${run[0][0]},39 ${run.join(" ")} ${run.at(-1)[0]},39`}),
        s("polyline", {points: run.join(" ")})])),
    h("small", {}, `at most ${most} in ${span(width)}`));
}

// -- the graph of a machine -----------------------------------------------------

// Layers from top to bottom: an edge leads to a layer below, but for those that close a circle.
// Long edges go through places of their own in the layers between; in each layer places are
// sorted by where their neighbours are, a few times over.
function layout(nodes, edges) {
  const by = new Map(nodes.map(x => [x.name, x]));
  const out = new Map(nodes.map(x => [x.name, []]));
  for (const x of edges) if (x.from !== x.to) out.get(x.from).push(x);
  const state = new Map();
  const order = [];
  for (const {name} of nodes) { // depth first, without recursion: machines may have many steps
    if (state.has(name)) continue;
    const path = [[name, 0]];
    state.set(name, "open");
    while (path.length) {
      const top = path.at(-1);
      const edge = out.get(top[0])[top[1]++];
      if (!edge) { state.set(top[0], "done"); order.unshift(top[0]); path.pop(); continue; }
      edge.back = state.get(edge.to) === "open";
      if (!state.has(edge.to)) { state.set(edge.to, "open"); path.push([edge.to, 0]); }
    }
  }
  for (const x of nodes) x.layer = 0;
  for (const name of order)
    for (const x of out.get(name))
      if (!x.back) by.get(x.to).layer = Math.max(by.get(x.to).layer, by.get(name).layer + 1);
  const entered = new Set(edges.map(x => x.to));
  for (const x of nodes.slice(1)) // what nothing leads to stands close to what it leads to
    if (!entered.has(x.name) && out.get(x.name).length)
      x.layer = Math.max(0, Math.min(...out.get(x.name).map(y => by.get(y.to).layer)) - 1);
  const layers = [];
  const add = x => { (layers[x.layer] ??= []).push(x); return x; };
  nodes.forEach(add);
  const near = new Map();
  const join = (a, b) => { for (const [x, y] of [[a, b], [b, a]]) near.set(x, [...near.get(x) ?? [], y]); };
  for (const x of edges) {
    if (x.from === x.to) continue;
    const [upper, lower] = [by.get(x.from), by.get(x.to)].sort((a, b) => a.layer - b.layer);
    x.places = [upper];
    for (let layer = upper.layer + 1; layer < lower.layer; ++layer)
      x.places.push(add({layer, width: 12, height: 0}));
    x.places.push(lower);
    x.places.forEach((place, i) => i && join(x.places[i - 1], place));
    if (upper === by.get(x.to)) x.places.reverse();
  }
  const number = layer => layer.forEach((x, i) => { x.at = i - layer.length / 2; });
  layers.forEach(number);
  for (let turn = 0; turn < 8; ++turn)
    for (const layer of turn % 2 ? layers.toReversed() : layers) {
      const middle = new Map(layer.map(x => {
        const others = (near.get(x) ?? []).filter(y => turn % 2 ? y.layer > x.layer : y.layer < x.layer);
        return [x, others.length ? others.reduce((sum, y) => sum + y.at, 0) / others.length : x.at];
      }));
      layer.sort((a, b) => middle.get(a) - middle.get(b));
      number(layer);
    }
  // Then each is drawn to where its neighbours are, as far as those beside it let it.
  const apart = (x, y) => (x.width + y.width) / 2 + 24;
  const beside = (layer, i) => i ? layer[i - 1].x + apart(layer[i - 1], layer[i]) : -Infinity;
  for (const layer of layers) layer.forEach((x, i) => { x.x = Math.max(0, beside(layer, i)); });
  for (let turn = 0; turn < 8; ++turn)
    for (const layer of turn % 2 ? layers.toReversed() : layers) {
      const wanted = layer.map(x => {
        const others = near.get(x) ?? [];
        return others.length ? others.reduce((sum, y) => sum + y.x, 0) / others.length : x.x;
      });
      layer.forEach((x, i) => { x.x = Math.max(wanted[i], beside(layer, i)); });
      const shift = layer.reduce((sum, x, i) => sum + wanted[i] - x.x, 0) / layer.length;
      for (const x of layer) x.x += shift;
    }
  const all = layers.flat();
  const left = Math.min(...all.map(x => x.x - x.width / 2)) - 30;
  let y = 10;
  for (const layer of layers) {
    const height = Math.max(...layer.map(x => x.height));
    for (const x of layer) {
      x.x = Math.round(x.x - left);
      x.y = Math.round(y + height / 2);
    }
    y += height + 44;
  }
  return {width: Math.max(...all.map(x => x.x + x.width / 2)) + 40, height: y - 30};
}

// The path of an edge: from place to place, up and down by curves.
function curve(edge, by) {
  const from = by.get(edge.from);
  if (edge.from === edge.to) {
    const x = from.x + from.width / 2;
    return `M ${x} ${from.y - 8} c 26 -8 26 24 0 16`;
  }
  const down = edge.places[0].layer < edge.places.at(-1).layer ? 1 : -1;
  const shift = down < 0 ? 10 : 0; // there and back are two lines
  const points = edge.places.map((x, i) =>
    [x.x + shift, x.y + down * (i === 0 ? 1 : i === edge.places.length - 1 ? -1 : 0) * x.height / 2]);
  return points.map(([x, y], i) => {
    if (i === 0) return `M ${x} ${y}`;
    const middle = (points[i - 1][1] + y) / 2;
    return `C ${points[i - 1][0]} ${middle} ${x} ${middle} ${x} ${y}`;
  }).join(" ");
}

function graph(x) {
  const lines = step => Object.entries(step.instances).filter(([, n]) => n > 0)
    .map(([status, n]) => `${count(n, x.estimated.includes(status))} ${status}`);
  const box = (name, more) => {
    const below = more.below ?? [];
    const text = cut(visible(name), 32);
    return {name, text, width: 24 + 8 * Math.max(4, text.length, ...below.map(y => y.length * 0.85)),
      height: 30 + 14 * below.length, ...more, below};
  };
  const nodes = x.steps.map(step => box(step.name, {
    step,
    below: [...(step.known ? [] : ["no step of the machine"]),
      ...(step.known && !step.to && !step.rests && !step.ends ? ["may go anywhere"] : []), ...lines(step)],
  }));
  const by = new Map(nodes.map(y => [y.name, y]));
  const edges = [];
  const add = (from, targets, kind, title) => {
    for (const to of targets ?? [])
      if (by.has(to)) edges.push({from, to, kind, title});
  };
  for (const step of x.steps) {
    add(step.name, step.to, "declared");
    add(step.name, step.outside, "outside", "moved from outside");
    if (step.then) add(step.name, [step.then], "deadline", `after ${span(step.after_us)}`);
  }
  const handler = "(when a step fails)";
  if (x.handled && x.handler_to?.length) {
    nodes.push(box(handler, {below: []}));
    by.set(handler, nodes.at(-1));
    add(handler, x.handler_to, "handler");
  }
  // What begins there is on top.
  nodes.sort((a, b) => (b.name === x.initial_step) - (a.name === x.initial_step));
  const size = layout(nodes, edges);
  const arrow = {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8,
    markerUnits: "userSpaceOnUse", orient: "auto"};
  return s("svg", {width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`,
      role: "group", "aria-label": "Steps and where they lead"},
    s("defs", {}, s("marker", arrow, s("path", {d: "M 0 0 L 8 4 L 0 8 z"}))),
    edges.map(e => s("path", {d: curve(e, by), class: e.kind, "marker-end": "url(#arrow)"},
      s("title", {}, visible(`${e.from} → ${e.to}${e.title ? `: ${e.title}` : ""}`)))),
    nodes.map(n => {
      const top = n.y - n.height / 2;
      const text = (of, y, kind) => s("text", {class: kind, x: n.x, y: top + y, "text-anchor": "middle"}, of);
      const drawn = [s("title", {}, visible(n.name)), text(n.text, 20),
        n.below.map((of, i) => text(of, 34 + 14 * i, "counts"))];
      if (!n.step) return s("g", {}, drawn);
      const kinds = [!n.step.known && "unknown", n.step.rests && "rests", n.step.ends && "ends",
        n.name === x.initial_step && "initial"];
      return s("a", {class: kinds.filter(Boolean).join(" "), "data-step": n.name,
          href: "#" + path_of("instances", {machine: x.fsm, version: x.version, step: n.name})},
        s("rect", {x: n.x - n.width / 2, y: top, width: n.width, height: n.height, rx: 4}), drawn);
    }));
}

// -- the server -----------------------------------------------------------------

// What the server, or the network in its place, has refused.
class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    Object.assign(this, {status, code});
  }
}

const token = {
  get: () => sessionStorage.getItem("token") ?? "",
  set: x => x ? sessionStorage.setItem("token", x) : sessionStorage.removeItem("token"),
};

async function ask(path, {body, bearer, stop} = {}) {
  const late = AbortSignal.timeout(15_000);
  const options = {cache: "no-store", credentials: "omit", redirect: "error",
    signal: stop ? AbortSignal.any([stop, late]) : late};
  if (bearer) options.headers = {Authorization: `Bearer ${bearer}`};
  if (body)
    Object.assign(options, {method: "POST", body: JSON.stringify(body),
      headers: {"Content-Type": "application/json", Authorization: `Bearer ${token.get()}`}});
  let answer, text;
  try {
    answer = await fetch("api/" + path, options);
    text = await answer.text();
  } catch (why) {
    if (stop?.aborted) throw why;
    throw new Refused(0, body ? "unknown_fate" : "away",
      `the server ${late.aborted ? "has not answered in time" : "does not answer"}`);
  }
  let got;
  try {
    got = JSON.parse(text);
  } catch { // of something on the way, which may have lost the server's own
    const refused = answer.status >= 400 && answer.status < 500;
    throw new Refused(answer.status, body && !refused ? "unknown_fate" : "http",
      text.slice(0, 500) || answer.statusText);
  }
  if (!answer.ok) throw new Refused(answer.status, got.code, got.error);
  return got;
}

// -- views ----------------------------------------------------------------------

const bell = new EventTarget(); // "look": ask now
const look = () => bell.dispatchEvent(new Event("look"));

// Until it is time again, somebody rings, or the view has been left.
const pause = (ms, stop) => new Promise(done => {
  const timer = setTimeout(end, ms);
  function end() {
    clearTimeout(timer);
    bell.removeEventListener("look", end);
    stop.removeEventListener("abort", end);
    done();
  }
  bell.addEventListener("look", end);
  stop.addEventListener("abort", end);
  if (stop.aborted) end();
});

let view; // the one that is shown

function route() {
  const [path, search = ""] = (location.hash.slice(1) || "/").split(/\?(.*)/s);
  const [name = "", ...rest] = path.split("/").filter(Boolean).map(decodeURIComponent);
  return {name: name || "overview", rest, query: Object.fromEntries(new URLSearchParams(search))};
}

function show() {
  view?.stop.abort();
  $("#dialog").open && $("#dialog").close();
  let to;
  try { to = route(); } catch { to = {name: "", rest: [], query: {}}; }
  view = {...to, stop: new AbortController(), make: views.get(to.name)};
  for (const x of $$("nav a"))
    x.dataset.view === to.name || (to.name === "instance" && x.dataset.view === "instances")
      ? x.setAttribute("aria-current", "page") : x.removeAttribute("aria-current");
  const main = $("#main");
  main.replaceChildren();
  main.className = "";
  delete main.dataset.drawn;
  main.dataset.view = location.hash;
  scrollTo(0, 0);
  document.title = [...to.rest, to.name, "gen_durable"].map(visible).join(" · ");
  if (!view.make) {
    main.append(h("p", {class: "note bad"}, "There is no such view."));
    return;
  }
  keep(view, main);
}

// What the server says about itself; asked again when it was away.
let about = {writes: false};
async function learn(stop) {
  about = await ask("about", {stop});
  heard_clock(about.now_us);
  $("#token").hidden = !about.writes;
  $("#read-only").hidden = about.writes;
}

// Asks and draws, for as long as it is shown. What fails is tried again, later and later; what
// takes long is asked for less often.
async function keep(self, main) {
  const stop = self.stop.signal;
  const shown = self.shown = self.make(self, main);
  let last;
  let known = about.version;
  let failures = 0;
  self.redraw = () => last && !stop.aborted && shown.draw(last);
  while (!stop.aborted) {
    if (document.hidden) {
      await pause(3_600_000, stop);
      continue;
    }
    const began = performance.now();
    try {
      if (!known) await learn(stop);
      last = await shown.load(stop);
      if (stop.aborted) return;
      known = true;
      failures = 0;
      main.classList.remove("stale");
      say("");
      shown.draw(last);
      main.dataset.drawn = Number(main.dataset.drawn ?? 0) + 1;
      await pause(Math.min(30_000, Math.max(1000, 20 * (performance.now() - began))), stop);
    } catch (why) {
      if (stop.aborted) return;
      if (!(why instanceof Refused)) console.error(why);
      known = false;
      const seconds = Math.min(10, 2 ** failures++);
      if (why.status === 404 || why.status === 400) shown.missing?.();
      main.classList.add("stale");
      say(why.message, seconds);
      await pause(1000 * seconds, stop);
    }
  }
}

function say(trouble, seconds) {
  const at = $("#status");
  at.className = trouble ? "away" : "";
  put(at, trouble && [data(trouble), ` – tries again in ${seconds} s `, button("look", {}, "Now")]);
}

document.addEventListener("visibilitychange", () => document.hidden || look());
addEventListener("online", look);
addEventListener("hashchange", show);

// -- dialogs --------------------------------------------------------------------

// The form that is shown: `submit` gets what was filled in, which button it was, and the form; what
// it throws is told there, below what it has told itself.
let shown_form;
function open(title, content, buttons, submit) {
  const dialog = $("#dialog");
  const [told, wrong] = [h("div", {}), h("div", {})];
  const form = h("form", {method: "dialog"}, h("h2", {id: "dialog-title"}, title), content,
    h("div", {role: "status", class: "said"}, told, wrong),
    h("div", {class: "row"}, button("close", {}, "Close"), buttons));
  dialog.replaceChildren(form);
  if (!dialog.open) dialog.showModal();
  $("input, textarea, select, button:not([data-do=close])", form)?.focus();
  shown_form = {
    form, submit,
    is_there: () => form.isConnected && dialog.open,
    told: (...nodes) => put(told, ...nodes),
    wrong: (...nodes) => put(wrong, ...nodes),
    close: () => form.isConnected && dialog.close(),
  };
}
const field = (name, label, attributes) =>
  h("label", {}, label, h("input", {name, autocomplete: "off", ...attributes}));
const filled = form => Object.fromEntries([...new FormData(form)].map(([name, x]) => [name, x.trim()]));

const writes = (...nodes) => about.writes ? nodes : [];

// -- verbs -----------------------------------------------------------------------

function ask_token(then) {
  open("The token of this server", [
    h("p", {}, "Verbs need it. It stays in this tab, until that is closed."),
    field("token", "Token", {type: "password", required: true, pattern: "[!-~]{1,1024}"}),
  ], [token.get() && button("forget", {}, "Forget it"), h("button", {}, "Use it")], async (x, how, at) => {
    const got = await ask("about", {bearer: x.token});
    if (!got.authorized) return at.told(h("p", {class: "bad"}, "That is not the token."));
    token.set(x.token);
    at.close();
    then?.();
  });
}

const ended = x => x.status === "done" || x.status === "failed";
const movable = x => x.status !== "executing" && x.status !== "done";
let by = ""; // who has been named last
const who = () => field("by", "By whom", {maxlength: 200, value: by});
const reason = () => [field("reason", "Reason, for the history", {maxlength: 8000}), who()];

const verbs = {
  retry: {
    name: "Retry", fits: x => x.status === "failed", fields: reason,
    effect: "Due now, with the inputs that it failed on; attempt, crashes and trials begin anew.",
  },
  stop: {
    name: "Stop", fits: x => !ended(x), fields: reason,
    effect: "It fails, with the reason. If it executes, its lease is taken away: its step is told at the next "
      + "heartbeat, and its outcome changes nothing.",
  },
  "run-now": {
    name: "Run now", fits: x => x.status === "runnable", fields: reason,
    effect: "What is to begin later, or to be tried again later, is due now.",
  },
  move: {
    name: "Move", fits: movable,
    fields: () => [field("queue", "To queue", {maxlength: 255}),
      field("priority", "Priority", {type: "number", min: -32768, max: 32767}),
      field("force", "Also to a queue that nobody has", {type: "checkbox"}), reason()],
    effect: "To another queue, or another priority; lower is more urgent.",
  },
  upgrade: {
    name: "Upgrade", fits: movable,
    fields: () => [field("to_version", "To version", {type: "number", min: 1, required: true}),
      field("to_steps", "Steps with other names there: old=new, old=new"), reason()],
    effect: "To another version of its machine. A node that has both versions does it at its next sweep; it "
      + "decodes the state, or leaves the instance as it is.",
  },
  rewind: {
    name: "Rewind", fields: reason,
    effect: "Back to the step and the state of that entry of its history. Signals that it has consumed since "
      + "do not come back.",
  },
  signal: {
    name: "Signal", fits: x => !ended(x),
    fields: x => [field("name", "Name", {required: true, maxlength: 255, value: x.awaits ?? ""}),
      h("label", {}, "Payload, as JSON", h("textarea", {name: "payload", rows: 4, spellcheck: "false"})),
      field("dedup_key", "Dedup key", {maxlength: 1024}),
      field("force", "Also a name or a payload that its machine does not know", {type: "checkbox"})],
    effect: "Into its inbox, where its step takes it.",
  },
  replace: {
    name: "Replace",
    fields: () => [h("label", {}, "Payload, as JSON", h("textarea", {name: "payload", rows: 4, spellcheck: "false", required: true})), reason()],
    effect: "That signal gets another payload. Who waits for its name wakes; what has failed for it can be tried again.",
  },
  discard: {
    name: "Discard", fields: reason,
    effect: "That signal leaves the inbox, as if a step had consumed it: a dedup key is remembered.",
  },
  erase: {
    name: "Erase", fits: x => x.status !== "executing",
    fields: () => [field("reason", "Reason, which stays", {maxlength: 8000, required: true}), who()],
    effect: "The instance goes for good, with its signals and its history; whatever it has begun elsewhere stays. "
      + "Who did it, when and why is kept.",
  },
  pause: {
    name: "Pause", fields: reason,
    effect: "Nothing begins in that queue, on all nodes, until it is resumed. What runs there ends.",
  },
  resume: {name: "Resume", fields: () => [], effect: "Instances of that queue begin again."},
  cancel: {name: "Cancel", fields: () => [], effect: "The job does not go on. What it has done stays."},
};

// What was filled in, as the server takes it.
function body_of(verb, x) {
  const body = {verb};
  for (const [name, text] of Object.entries(x))
    if (text !== "") body[name] = name === "priority" || name === "to_version" ? Number(text) : text;
  if (body.force) body.force = true; // of a checkbox
  if (body.to_steps)
    body.to_steps = Object.fromEntries(body.to_steps.split(",").map(pair => {
      const [, from, to] = pair.match(/^\s*(.+?)\s*=\s*(.+?)\s*$/) ?? [];
      if (!from) throw new Refused(0, "usage", `expected old=new, got ${pair}`);
      return [from, to];
    }));
  if (x.by) by = x.by;
  return body;
}

const links = ids => ids.map((id, i) => [i ? ", " : "", link(`/instance/${id}`, id)]);

function progress(job) {
  const what = job.dry_run ? "fit" : "changed";
  const end = job.cancelled ? ", cancelled." : job.ended_at_us ? "." : " so far …";
  return [
    h("p", {}, `Job ${job.id}: ${count(job.examined)} looked at, `, h("b", {}, `${count(job.changed)} ${what}`),
      `, ${count(job.refused)} refused${end}`),
    job.what === "upgrade" && !job.ended_at_us && h("p", {},
      job.nodes.length > 0 ? ["Done by ", data(job.nodes.join(" or ")), "."] : "It waits: no node that lives can do it."),
    job.last_refusal && h("p", {class: "warn"}, "The last refusal: ", data(job.last_refusal)),
    job.refused_ids.length > 0 && h("p", {}, "Refused: ", links(job.refused_ids)),
  ];
}

// A job until it has ended, or its form is closed: then it goes on by itself.
async function follow(id, at, tell) {
  while (at.is_there()) {
    try {
      const job = await ask(`job?id=${id}`);
      at.wrong();
      tell(job);
      if (job.ended_at_us) return;
    } catch (why) {
      if (!(why instanceof Refused) || (why.status && why.status !== 503)) throw why;
      at.wrong(h("p", {class: "bad"}, data(why.message), ": tries again"));
    }
    await pause(300, view.stop.signal);
  }
}

// Each by itself, until the form is closed. Without a body only a look is taken at each. What goes
// wrong with more than one of them ends it: they are not refused, and one may have been changed.
async function each(ids, verb, body, at) {
  const refused = [];
  const jobs = new Map();
  let fit = 0;
  const tell = () => at.told(
    h("p", {}, `${fit + refused.length} of ${ids.length} looked at, `,
      h("b", {}, `${fit} ${body ? "changed" : "fit"}`), `, ${refused.length} refused`),
    refused.slice(0, 20).map(([one, said]) =>
      h("p", {class: "warn"}, link(`/instance/${one}`, one), ": ", data(said))));
  const count_in = (id, fits, said) => { fits ? ++fit : refused.push([id, said]); };
  for (const id of ids) {
    if (!at.is_there()) return;
    try {
      if (body) {
        const {job} = await ask("verb", {body: {...body, id}});
        job ? jobs.set(id, job) : count_in(id, true);
      } else {
        const {instance} = await ask(`instance?id=${id}`);
        count_in(id, instance && verb.fits(instance), `it is ${instance?.status ?? "deleted"}`);
      }
    } catch (why) {
      if (![400, 404, 409].includes(why.status)) {
        why.message = `instance ${id}: ${why.message}`;
        throw why;
      }
      count_in(id, false, why.message);
    }
    tell();
  }
  for (const [id, job] of jobs)
    await follow(job, at, x => {
      if (x.ended_at_us) count_in(id, Number(x.changed) > 0, x.last_refusal ?? `job ${job} has not changed it`);
      tell();
    });
}

// Asks what else is to be known, then does it. `target`: {id}, {ids}, {filter}, {queue}, {job}; of
// many there is a dry run first. `what` says for people what it is about.
function act(name, target, what, instance = {}) {
  if (!token.get()) return ask_token(() => act(name, target, what, instance));
  const verb = verbs[name];
  const many = Boolean(target.ids || target.filter);
  const go = h("button", {value: "go", hidden: many}, verb.name);
  let changes = 0; // of what is filled in
  open(h("span", {}, `${verb.name}: `, data(what)),
    [h("p", {class: "faint"}, verb.effect), verb.fields(instance)],
    [many && h("button", {value: "dry"}, "Dry run"), go],
    async (x, how, at) => {
      const body = body_of(name, x);
      const dry = how === "dry";
      const was = changes;
      if (target.ids) {
        await each(target.ids, verb, dry ? null : body, at);
      } else {
        const answer = await ask("verb", {body: {...body, ...target, ...dry && {dry_run: true}}});
        if (answer.job) await follow(answer.job, at, job => at.told(progress(job)));
        else if (!many) at.close();
      }
      go.hidden = many && (!dry || was !== changes);
      look();
    });
  shown_form.form.addEventListener("input", () => { ++changes; go.hidden = many; }); // something else: once more
}

async function submitted(how) {
  const at = shown_form;
  const x = filled(at.form);
  const buttons = $$("button:not([data-do=close])", at.form);
  for (const one of buttons) one.disabled = true;
  at.told();
  at.wrong();
  try {
    await at.submit(x, how, at);
  } catch (why) {
    if (!(why instanceof Refused)) throw why;
    if (why.status === 401) token.set("");
    at.wrong(h("p", {class: "note bad"}, data(why.message),
      why.code === "unknown_fate" && ". It may have happened: look first.",
      why.status === 401 && [" ", button("token", {}, "Type the token in again")]));
  } finally {
    for (const one of buttons) one.disabled = false;
  }
}

// -- the views -------------------------------------------------------------------

// Those that are shown by a hash route: how they ask, and what they draw.
const views = new Map();
const statuses = ["runnable", "executing", "awaiting_signal", "done", "failed"];
const status = x => h("span", {"data-status": x}, visible(x));
const machine = (fsm, version) =>
  link(path_of(`machine/${encodeURIComponent(fsm)}/${version}`), data(`${fsm} v${version}`));
const instances = (filter, ...children) => link(path_of("instances", filter), ...children);
const of_text = (name, of) => [name, "", x => data(of(x) ?? "")];
const of_count = (name, of) => [name, "number", x => count(of(x))];
const of_time = (name, of) => [name, "time", x => when(of(x))];

const paused = q => q.paused && h("span", {class: "warn"}, "since ", when(q.paused_at_us),
  q.paused_by && [" by ", data(q.paused_by)], q.reason && [": ", data(q.reason)]);

const queues = rows => table("Queues", [
  ["queue", "", q => instances({queue: q.queue}, data(q.queue))],
  of_count("nodes", q => q.nodes),
  of_count("slots", q => q.slots),
  ["due", "number", q => counted(q.due, q.more_due)],
  of_time("oldest due", q => q.oldest_due_us),
  ["later", "number", q => counted(q.later, q.more_later)],
  ["executing", "number", q => counted(q.executing, q.more_executing)],
  ["paused", "", paused],
  ...writes(["", "", q => button(q.paused ? "resume" : "pause", {"data-queue": q.queue},
    q.paused ? "Resume" : "Pause")]),
], rows, q => q.queue);

const nodes = rows => table("Nodes", [
  of_text("node", n => n.node),
  ["lives", "", n => h("span", {class: n.lives ? "good" : "bad"}, n.lives ? "yes" : "no")],
  of_text("host", n => n.host),
  ["process", "number", n => String(n.process)],
  of_count("slots", n => n.slots),
  of_text("queues", n => n.queues.join(", ")),
  of_text("machines", n => n.machines.join(", ")),
  of_text("library", n => n.library),
  of_time("started", n => n.started_at_us),
  of_time("last seen", n => n.seen_at_us),
], rows, n => n.incarnation);

const jobs = rows => table("Jobs", [
  ["job", "number", j => j.id],
  ["what", "", j => visible(j.what.replace("_", "-")) + (j.dry_run ? " (dry run)" : "")],
  of_text("filter", j => cut(j.which, 500)),
  of_text("by", j => j.by),
  of_text("reason", j => cut(j.reason ?? "", 500)),
  ["state", "", j => j.cancelled ? "cancelled" : j.ended_at_us ? "ended" : j.worked_on ? "runs" : "waits"],
  ["done", "number", j => `${j.ended_at_us || j.highest_id <= 0 ? 100
    : Math.floor(100 * Math.max(0, j.last_id) / j.highest_id)} %`],
  of_count("looked at", j => j.examined),
  of_count("changed", j => j.changed),
  ["refused", "number", j => h("span", {title: j.last_refusal && visible(j.last_refusal)}, count(j.refused))],
  of_time("made", j => j.created_at_us),
  ...writes(["", "", j => !j.ended_at_us && button("cancel", {"data-job": j.id}, "Cancel")]),
], rows, j => j.id);

views.set("overview", (self, main) => ({
  load: async stop => {
    const [now, more] = await Promise.all([ask("overview", {stop}), ask("jobs", {stop})]);
    return {...now, ...more};
  },
  draw: x => {
    heard_clock(x.now_us);
    put(main, h("h1", {}, "Overview"),
      h("div", {class: "tiles"}, x.statuses.map(y => instances({status: y.status},
        h("b", {"data-count": y.status}, count(y.instances, y.estimated)), status(y.status)))),
      h("h2", {}, "Rows written"),
      h("div", {class: "plots"}, ["inserted", "updated", "deleted"].map(name =>
        plot(name, x.rates.at_us, x.rates[name]))),
      x.not_served.map(y => h("p", {class: "note", "data-key": JSON.stringify([y.version, y.queue, y.fsm])},
        machine(y.fsm, y.version), " in queue ", data(y.queue), " is served by nobody: ",
        y.version_served ? "nodes that have it serve other queues" : "no node that lives has it")),
      h("h2", {}, "Queues"), queues(x.queues),
      h("h2", {}, "Nodes"), nodes(x.nodes),
      h("h2", {}, "Jobs"), x.jobs.length > 0 ? jobs(x.jobs) : h("p", {class: "faint"}, "None."),
      x.jobs.length >= 100 && h("p", {class: "faint"}, "The newest 100, and what has not ended."));
  },
}));

const served = m => m.nodes > 0 ? `${m.nodes} ${m.nodes === 1 ? "node" : "nodes"}`
  : h("span", {class: "warn"}, "nobody ", m.last_served_us ? ["since ", when(m.last_served_us)] : "yet");

views.set("machines", (self, main) => ({
  load: stop => ask("machines", {stop}),
  draw: got => put(main, h("h1", {}, "Machines"), table("Machines", [
    ["machine", "", x => machine(x.machine.fsm, x.machine.version)],
    ["inserts", "", x => x.machine.pinned ? "pinned" : x.machine.retired ? "retired" : ""],
    ["served by", "", x => served(x.machine)],
    ...statuses.map(name => [name, "number", x =>
      instances({machine: x.machine.fsm, version: x.machine.version, status: name},
        count(x.instances[name] ?? 0, x.estimated.includes(name)))]),
  ], got.machines, x => `${x.machine.version} ${x.machine.fsm}`)),
}));

function leads_to(step) {
  if (!step.known) return h("span", {class: "bad"}, "no step of the machine");
  return [step.to ? data(step.to.join(", ")) : step.rests || step.ends ? "" : "anywhere",
    step.outside.length > 0 && [" from outside: ", data(step.outside.join(", "))],
    step.then && [` after ${span(step.after_us)}: `, data(step.then)]];
}

views.set("machine", (self, main) => {
  const [fsm, version] = self.rest;
  return {
    load: stop => ask("machine?" + parameters({name: fsm, version}), {stop}),
    missing: () => put(main, h("p", {class: "note bad"}, "No node has made it known. ",
      instances({machine: fsm, version}, "Its instances"))),
    draw: x => put(main, h("h1", {}, data(`${x.fsm} v${x.version}`)),
      h("div", {class: "graph", tabindex: 0, role: "region", "aria-label": "Graph"}, graph(x)),
      x.handled && h("p", {}, "When a step fails, the handler may go on ",
        x.handler_to ? ["with ", data(x.handler_to.join(", ") || "no other step")] : "anywhere", "."),
      x.steps.some(y => !y.known) && h("p", {class: "note"}, "Instances stand at steps that it does not have."),
      h("p", {class: "faint"}, "Dashed: what the handler does. Thick: what is open to those outside. "
        + "Rounded: instances rest there. ~: an estimate."),
      h("h2", {}, "Steps"),
      table("Steps", [
        ["step", "", y => instances({machine: x.fsm, version: x.version, step: y.name}, data(y.name))],
        ["leads to", "", leads_to],
        ...statuses.map(name => [name, "number", y =>
          instances({machine: x.fsm, version: x.version, step: y.name, status: name},
            count(y.instances[name] ?? 0, x.estimated.includes(name)))]),
      ], x.steps, y => y.name)),
  };
});

// -- instances, by filter ----------------------------------------------------------

const page_rows = 100;
const most_pages = 20; // each looks at 5,000 instances
const filters = [
  ["machine", "Machine"],
  ["version", "Version", {inputmode: "numeric", pattern: "[1-9][0-9]*", class: "short"}],
  ["step", "Step"],
  ["status", "Status"],
  ["queue", "Queue"],
  ["older", "Not changed for", {placeholder: "10m, 2h, 7d", class: "short"}],
  ["failure", "Text in last error"],
];
let last_list = "#/instances";

const filter_form = query => h("form", {class: "filters", id: "filters"},
  filters.map(([name, label, more]) => h("label", {}, label, name === "status"
    ? h("select", {name}, ["", ...statuses].map(x =>
      h("option", {value: x, selected: x === query.status}, x || "any")))
    : h("input", {name, value: query[name], autocomplete: "off", spellcheck: "false", maxlength: 1000, ...more}))),
  h("button", {}, "Filter"), link("/instances", "All"));

const list = (rows, chosen) => table("Instances", [
  ...writes([pick("Select all", "all", rows.length > 0 && chosen.size === rows.length), "",
    x => pick(`Select ${x.id}`, x.id, chosen.has(x.id))]),
  ["id", "number", x => link(`/instance/${x.id}`, x.id)],
  ["machine", "", x => machine(x.fsm, x.version)],
  of_text("step", x => x.step),
  ["status", "", x => status(x.status)],
  of_text("queue", x => x.queue),
  ["priority", "number", x => String(x.priority)],
  ["attempt", "number", x => String(x.attempt)],
  of_time("changed", x => x.updated_at_us),
  of_text("last error", x => cut(x.last_error ?? "", 200)),
], rows, x => x.id);
const pick = (label, id, checked) =>
  h("input", {type: "checkbox", "aria-label": label, "data-pick": id, checked});

const bulk = (filter, chosen) => h("div", {class: "row", "data-key": "verbs"},
  h("label", {}, "Do ", h("select", {id: "bulk", "aria-label": "Verb", "data-kept": true},
    ["retry", "stop", "run-now", "move", "upgrade"].map(name => h("option", {value: name}, verbs[name].name)))),
  button("bulk-chosen", {disabled: chosen.size === 0}, `with the selected (${chosen.size})`),
  button("bulk-all", {disabled: Object.keys(filter).length === 0}, "with all that fit the filter"));

views.set("instances", (self, main) => {
  last_list = location.hash;
  const filter = Object.fromEntries(filters.map(([name]) => [name, self.query[name]]).filter(([, x]) => x));
  const chosen = self.chosen = new Set();
  self.filter = filter.version ? {...filter, version: Number(filter.version)} : filter;
  const rows = h("div", {});
  main.append(h("h1", {}, "Instances"), filter_form(self.query), rows);
  return {
    load: async stop => {
      const all = [];
      let next = self.query.before;
      let unknown; // which name of the filter nobody has
      for (let i = 0; i < most_pages; ++i) {
        const page = await ask("instances?" + parameters({...filter, before: next, limit: page_rows - all.length}),
          {stop});
        all.push(...page.rows);
        next = page.next;
        unknown = page.unknown;
        if (!next || all.length >= page_rows) break;
      }
      return {rows: all, next, unknown};
    },
    draw: x => {
      self.rows = x.rows;
      for (const id of chosen) if (!x.rows.some(y => y.id === id)) chosen.delete(id);
      put(rows, writes(bulk(filter, chosen)), list(x.rows, chosen),
        x.rows.length === 0 && h("p", {class: "faint", "data-key": "none"},
          x.next ? "None here; there may be more below." : x.unknown ? data(x.unknown) : "None."),
        h("p", {class: "row", "data-key": "pages"}, self.query.before && instances(filter, "Newest"),
          x.next ? h("a", {href: "#" + path_of("instances", {...filter, before: x.next}), id: "older"}, "Older")
            : h("span", {class: "faint"}, "There is no more.")));
    },
  };
});

// -- one instance ------------------------------------------------------------------

const most_shown = 200_000; // characters of a value, if nobody asks for all

// Of a value that a machine's cipher has encrypted: what anybody may know. A text may be cut.
function encryption(text) {
  const [, key, content, end] = text?.match(/^\{"gd\.key": ?"([\w./:-]+)", ?"gd\.encrypted": ?"([^"]*)("\})?$/) ?? [];
  return key && `Encrypted with key ${key}, ${end ? "" : "more than "}${count(
    Math.floor(content.replace(/=+$/, "").length * 3 / 4))} bytes.`;
}

function value(key, text, self) {
  const hidden = encryption(text);
  if (hidden) return h("p", {class: "faint", "data-key": key}, hidden);
  const all = self.whole.has(key) || text.length <= most_shown;
  const shown = visible(pretty(all ? text : text.slice(0, most_shown)));
  return [h("pre", {"data-key": key, tabindex: 0, "aria-label": key}, shown),
    !all && h("p", {"data-key": `whole ${key}`},
      button("whole", {"data-value": key}, `Show all ${count(text.length)} characters`))];
}
const broken = why => h("p", {class: "note bad"}, data(why));

function facts(x) {
  const awaits = x.awaits === "" ? ["rests", x.deadline_us ? "until moved, or its deadline" : "until moved"]
    : x.awaits !== null && ["awaits", data([x.awaits, ...x.awaits_also].join(", "))];
  const text = (name, of) => !none(of) && [name, data(of)];
  const time = (name, us) => us !== null && [name, when(us)];
  const rows = [
    ["machine", machine(x.fsm, x.version)],
    ["step", instances({machine: x.fsm, version: x.version, step: x.step}, data(x.step))],
    ["status", status(x.status)],
    awaits,
    time("deadline", x.deadline_us),
    text("woken by", x.wake_reason),
    x.last_error && ["last error", h("span", {class: "bad"}, data(x.last_error))],
    ["queue", instances({queue: x.queue}, data(x.queue))],
    ["priority", String(x.priority)],
    text("partition key", x.partition_key),
    text("unique key", x.unique_key),
    ["seq", String(x.seq)],
    ["attempt", String(x.attempt)],
    x.crashes > 0 && ["crashes", String(x.crashes)],
    x.trials > 0 && ["trials", String(x.trials)],
    x.status === "runnable" && time("eligible", x.eligible_at_us),
    text("lease of", x.locked_by),
    time("lease until", x.lease_expires_at_us),
    time("inserted", x.inserted_at_us),
    time("changed", x.updated_at_us),
    text("traceparent", x.traceparent),
  ];
  return h("dl", {}, rows.filter(Boolean).map(([name, of]) =>
    [h("dt", {}, name), h("dd", {"data-fact": name}, of)]));
}

const most_of_payload = 4096; // characters that the server tells
const inbox = (rows, x) => table("Inbox", [
  ["signal", "number", x => x.id],
  of_text("name", x => x.name),
  of_time("came", x => x.inserted_at_us),
  of_text("dedup key", x => x.dedup_key),
  ["payload", "", x => x.payload === null ? h("span", {class: "faint"}, "too large to be shown")
    : encryption(x.payload) ? h("span", {class: "faint"}, encryption(x.payload))
    : [data(x.payload), [...x.payload].length >= most_of_payload && "…"]],
  ["", "", x => x.undecodable !== null ? h("span", {class: "bad", "data-is": "undecodable"}, "does not decode: ", data(x.undecodable))
    : x.seen && h("span", {class: "faint", "data-is": "seen"}, "seen")],
  ...writes(movable(x) && ["", "", signal => ["replace", "discard"].map(name =>
    button(name, {"data-signal": signal.id}, verbs[name].name))]).filter(Boolean),
], rows, signal => signal.id);

// What can be folded is made when it is opened: a history may have a hundred large states.
function folded(what, seq, text, why, self) {
  if (why) return broken(why);
  const key = `${what} ${seq}`;
  const opened = self.opened.has(key);
  return !none(text) && h("details", {"data-open": key, open: opened},
    h("summary", {}, what), opened && value(key, text, self));
}

function entry(e, x, self) {
  const more = [e.attempt > 0 && `attempt ${e.attempt}`, x && e.version !== x.version && `v${e.version}`,
    e.by && ["by ", data(e.by)], e.wake_reason && ["woken by ", data(e.wake_reason)]].filter(Boolean);
  const kind = e.by ? "outside" : ["done", "stop"].includes(e.outcome) && `outcome-${e.outcome}`;
  return h("li", {"data-key": `entry ${e.seq}`, class: kind},
    h("div", {class: "row"}, h("b", {}, `${e.seq} `, data(e.outcome)),
      h("span", {}, !none(e.from_step) && e.from_step !== e.to_step && [data(e.from_step), " → "],
        data(e.to_step)),
      h("time", {class: "faint", datetime: iso(e.at_us)}, iso(e.at_us).replace("T", " ")),
      writes(x && x.status !== "executing" && !none(e.state)
        && button("rewind", {"data-seq": e.seq}, "Rewind to here"))),
    more.length > 0 && h("p", {class: "faint"}, more.map((y, i) => [i ? ", " : "", y])),
    e.reason && h("p", {}, data(e.reason)),
    folded("metadata", e.seq, e.metadata, e.metadata_error, self),
    folded("state", e.seq, e.state, e.state_error, self));
}

const of_one = (x, why) => h("div", {class: "row", "data-key": "verbs"}, writes(
  ["retry", "stop", "run-now", "move", "upgrade", "signal", "erase"].filter(name => verbs[name].fits(x))
    .map(name => button(name, {}, verbs[name].name)),
  why?.cause === "queue_paused" && button("resume", {"data-queue": x.queue}, "Resume its queue")));

const values = (x, self) => [h("h2", {}, "State"),
  none(x.state) ? broken(x.state_error ?? "There is none.") : value("state", x.state, self),
  x.result_error ? broken(x.result_error)
    : !none(x.result) && [h("h2", {}, "Result"), value("result", x.result, self)]];

views.set("instance", (self, main) => {
  const which = self.rest[0] !== undefined ? {id: self.rest[0]}
    : self.query.key?.startsWith("\\x") ? {key_hex: self.query.key.slice(2)} : {key: self.query.key};
  Object.assign(self, {whole: new Set(), opened: new Set(), id: which.id});
  let older = []; // entries that were asked for
  let history = [];
  let complete = false;
  let trouble = "";
  const as_key = text =>
    h("p", {class: "faint", "data-key": "as key"}, link(path_of("instance", {key: which.id}), text));
  return {
    load: stop => ask("instance?" + parameters(which), {stop}),
    more: async () => {
      const there = history;
      try {
        const {rows} = await ask("history?" + parameters({id: self.id, before: there.at(-1).seq, limit: 100}),
          {stop: self.stop.signal});
        older = [...there, ...rows];
        complete = rows.length === 0;
        trouble = "";
      } catch (why) {
        if (!(why instanceof Refused) && !self.stop.signal.aborted) throw why;
        trouble = why.message;
      }
      self.redraw();
    },
    missing: () => put(main, h("p", {class: "note bad"}, "There is no such instance."),
      which.id && as_key("Look for it as a unique key")),
    draw: ({instance: x, why, inbox: signals, history: newest}) => {
      self.instance = x;
      self.id = x?.id ?? which.id;
      const first = newest.at(-1)?.seq ?? Infinity;
      if (older.length && older[0].seq + 1 < first) { // more than a page has come since: they would not meet
        older = [];
        complete = false;
      }
      history = [...newest, ...older.filter(e => e.seq < first)];
      put(main, h("h1", {}, `Instance ${visible(self.id)}`),
        self.query.found && as_key(`Look for the unique key ${visible(which.id)}`),
        !x && h("p", {class: "note"}, "It is deleted; its history is still there."),
        why && h("p", {class: "why", id: "why", "data-cause": why.cause}, data(why.sentence + ".")),
        why?.details?.instance && h("p", {"data-key": "other"},
          link(`/instance/${why.details.instance}`, `Instance ${why.details.instance}`)),
        x && [of_one(x, why),
          h("div", {class: "columns", "data-key": "columns"},
            h("section", {}, h("h2", {}, "Facts"), facts(x)), h("section", {}, values(x, self))),
          h("h2", {}, `Inbox (${count(x.inbox)})`),
          signals.length > 0 ? inbox(signals, x) : h("p", {class: "faint", "data-key": "empty"}, "Empty.")],
        h("h2", {}, "History"),
        history.length > 0 ? h("ol", {class: "line"}, history.map(e => entry(e, x, self)))
          : h("p", {class: "faint"}, "None is kept."),
        history.at(-1)?.seq > 0 && !complete && h("p", {"data-key": "more"},
          button("more", {}, "Earlier"), trouble && h("span", {class: "bad"}, " ", data(trouble))));
    },
  };
});

// -- what is pressed ---------------------------------------------------------------

const of_view = () => ({id: view.id});
const doings = {
  look, help,
  token: () => ask_token(),
  forget: () => { token.set(""); $("#dialog").close(); },
  close: () => $("#dialog").close(),
  skip: () => $("#main").focus(),
  pause: at => act("pause", {queue: at.queue}, at.queue),
  resume: at => act("resume", {queue: at.queue}, at.queue),
  cancel: at => act("cancel", {job: at.job}, `job ${at.job}`),
  replace: at => act("replace", {...of_view(), signal: at.signal}, `signal ${at.signal} of instance ${view.id}`),
  discard: at => act("discard", {...of_view(), signal: at.signal}, `signal ${at.signal} of instance ${view.id}`),
  rewind: at => act("rewind", {...of_view(), seq: Number(at.seq)}, `instance ${view.id}, to entry ${at.seq}`),
  "bulk-chosen": () => act($("#bulk").value, {ids: [...view.chosen]}, `${view.chosen.size} selected`),
  "bulk-all": () => act($("#bulk").value, {filter: view.filter},
    Object.entries(view.filter).map(x => x.join(" ")).join(", ")),
  whole: at => { view.whole.add(at.value); view.redraw(); },
  more: () => view.shown.more(),
};
for (const name of ["retry", "stop", "run-now", "move", "upgrade", "signal", "erase"])
  doings[name] = () => act(name, of_view(), `instance ${view.id}`, view.instance);

function help() {
  const told = [["j", "k", "next, previous row"], ["Enter", "opens it"], ["x", "selects it"],
    ["n", "older instances"], ["/", "finds an instance"], ["f", "filters"], ["g o", "overview"],
    ["g m", "machines"], ["g i", "instances"], ["r", "looks now"], ["Esc", "closes, leaves, goes up"],
    ["?", "this"]];
  open("Keys", [h("dl", {}, told.map(x =>
    [h("dt", {}, x.slice(0, -1).map(key => [h("kbd", {}, key), " "])), h("dd", {}, x.at(-1))])),
    h("p", {class: "faint"}, `gdctl ${about.version ?? ""}, schema `, data(about.schema ?? ""),
      ` ${about.schema_version ?? ""}`)], []);
}

document.addEventListener("click", event => {
  const at = event.target.closest("[data-do]");
  if (!at || at.disabled) return;
  if (at.tagName === "A") event.preventDefault();
  doings[at.dataset.do](at.dataset);
});

document.addEventListener("change", ({target}) => {
  const id = target.dataset?.pick;
  if (!id) return;
  for (const one of id === "all" ? view.rows.map(x => x.id) : [id])
    target.checked ? view.chosen.add(one) : view.chosen.delete(one);
  view.redraw();
});

// It does not bubble.
document.addEventListener("toggle", ({target}) => {
  const key = target.dataset?.open;
  if (!key) return;
  target.open ? view.opened.add(key) : view.opened.delete(key);
  view.redraw();
}, true);

document.addEventListener("submit", event => {
  event.preventDefault();
  const form = event.target;
  if (form.id === "find") {
    const what = $("#find-what").value.trim();
    if (what)
      location.hash = /^\d{1,19}$/.test(what) ? path_of(`instance/${what}`, {found: true})
        : path_of("instance", {key: what});
    document.activeElement.blur();
  } else if (form.id === "filters") {
    location.hash = path_of("instances", filled(form));
  } else {
    submitted(event.submitter?.value);
  }
});

const rows = () => $$("main tbody tr").map(x => $("a, button", x)).filter(Boolean);
function step(by) {
  const all = rows();
  const at = all.findIndex(x => x.closest("tr").contains(document.activeElement));
  all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))]?.focus();
}
let after_g = false;
const keys = {
  j: () => step(1), k: () => step(-1), "?": help, r: look,
  "/": () => $("#find-what").select(), f: () => $("#filters input")?.focus(), n: () => $("#older")?.click(),
  x: () => $("[data-pick]", document.activeElement.closest("tr") ?? h("p"))?.click(),
  Escape: () => {
    if (view.name === "instance") location.hash = last_list;
    if (view.name === "machine") location.hash = "#/machines";
  },
};
const places = {o: "#/", m: "#/machines", i: "#/instances"};

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("#dialog").open) return;
  if (event.target.closest("input:not([type=checkbox]), select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const go = after_g && places[event.key];
  const does = Object.hasOwn(keys, event.key) && keys[event.key];
  after_g = event.key === "g" && !after_g;
  if (!go && !does) return;
  event.preventDefault();
  go ? (location.hash = go) : does();
});

show();
