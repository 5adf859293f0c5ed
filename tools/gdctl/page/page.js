"use strict";
// The page of `gdctl serve`. Whatever comes from the database becomes text nodes and attributes,
// never markup. Views are hash routes; each asks for its data again a second after it has been
// drawn, as long as it is visible, and what is drawn is merged into what is there: focus,
// selection and scroll positions stay.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

// -- elements -------------------------------------------------------------------

const svgTags = new Set(["svg", "g", "rect", "path", "text", "title", "polyline", "polygon", "marker", "defs"]);

// An element. Attributes that are null, undefined or false are left out; children are nodes, texts
// or lists of them.
function h(tag, attributes = {}, ...children) {
  const made = svgTags.has(tag) || attributes.svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false && name !== "svg")
      made.setAttribute(name, value === true ? "" : value);
  made.append(...children.flat(Infinity).filter(x => x !== null && x !== undefined && x !== false));
  return made;
}

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

// Merges nodes into what `into` holds. Those with a data-key go where that key was before.
function put(into, ...nodes) {
  const keyed = new Map([...into.children].filter(x => x.dataset.key).map(x => [x.dataset.key, x]));
  let at = into.firstChild;
  for (const x of nodes.flat(Infinity).filter(Boolean)) {
    const made = typeof x === "string" ? document.createTextNode(x) : x;
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
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const visible = text => String(text).replace(unseen, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const data = text => h("bdi", {}, visible(text));
const cut = (text, length) => text.length > length ? text.slice(0, length - 1) + "…" : text;

const link = (path, ...children) => h("a", {href: "#" + path}, ...children);
const path_of = (view, query = {}) => {
  const text = new URLSearchParams(Object.entries(query).filter(([, x]) => x !== "" && x !== null && x !== undefined));
  return `/${view}${text.size ? `?${text}` : ""}`;
};
const button = (what, attributes, ...children) => h("button", {type: "button", "data-do": what, ...attributes}, ...children);

// A table that scrolls by itself. Columns are [heading, class]; rows are [key, cells].
const table = (label, columns, rows) => h("div", {class: "wide"}, h("table", {"aria-label": label},
  h("thead", {}, h("tr", {}, columns.map(([name, kind]) => h("th", {scope: "col", class: kind}, name)))),
  h("tbody", {}, rows.map(([key, ...cells]) => h("tr", {"data-key": key},
    cells.map((cell, i) => h("td", {class: columns[i][1]}, cell)))))));

// -- numbers and times ----------------------------------------------------------

let skew_us = 0; // of the server's clock
const now_us = () => Date.now() * 1000 + skew_us;
const heard_clock = us => { if (us) skew_us = us - Date.now() * 1000; };

const count = (n, estimated) => (estimated ? "~" : "") + Number(n).toLocaleString("en");
// Of what nobody counts further than to 10,000.
const counted = n => count(n) + (n >= 10_000 ? "+" : "");

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
  const line = () => "\n" + "  ".repeat(depth);
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
    h("svg", {class: "plot", viewBox: "0 0 120 40", preserveAspectRatio: "none", role: "img",
        "aria-label": `${name}: now ${said}, at most ${most}`},
      runs.filter(run => run.length > 1).map(run => [
        h("polygon", {points: `${run[0][0]},39 ${run.join(" ")} ${run.at(-1)[0]},39`}),
        h("polyline", {points: run.join(" ")})])),
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
  for (const layer of layers) layer.forEach((x, i) => { x.x = i ? layer[i - 1].x + apart(layer[i - 1], x) : 0; });
  for (let turn = 0; turn < 8; ++turn)
    for (const layer of turn % 2 ? layers.toReversed() : layers) {
      const wanted = layer.map(x => {
        const others = near.get(x) ?? [];
        return others.length ? others.reduce((sum, y) => sum + y.x, 0) / others.length : x.x;
      });
      layer.forEach((x, i) => { x.x = i ? Math.max(wanted[i], layer[i - 1].x + apart(layer[i - 1], x)) : wanted[i]; });
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
  return h("svg", {width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`,
      role: "group", "aria-label": "Steps and where they lead"},
    h("defs", {}, h("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto"},
      h("path", {d: "M 0 0 L 8 4 L 0 8 z"}))),
    edges.map(e => h("path", {d: curve(e, by), class: e.kind, "marker-end": "url(#arrow)"},
      h("title", {}, visible(`${e.from} → ${e.to}${e.title ? `: ${e.title}` : ""}`)))),
    nodes.map(n => {
      const kind = !n.step ? "handler" : [!n.step.known && "unknown", n.step.rests && "rests", n.step.ends && "ends",
        n.name === x.initial_step && "initial"].filter(Boolean).join(" ");
      const top = n.y - n.height / 2;
      const drawn = [h("title", {}, visible(n.name)),
        n.step && h("rect", {x: n.x - n.width / 2, y: top, width: n.width, height: n.height, rx: 4}),
        h("text", {x: n.x, y: top + 20, "text-anchor": "middle"}, n.text),
        n.below.map((text, i) => h("text", {class: "counts", x: n.x, y: top + 34 + 14 * i, "text-anchor": "middle"}, text))];
      if (!n.step) return h("g", {class: kind}, drawn);
      return h("a", {svg: true, class: kind, "data-step": n.name,
        href: "#" + path_of("instances", {machine: x.fsm, version: x.version, step: n.name})}, drawn);
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
  const options = {cache: "no-store", credentials: "omit", redirect: "error", signal: stop ? AbortSignal.any([stop, late]) : late};
  if (bearer) options.headers = {Authorization: `Bearer ${bearer}`};
  if (body)
    Object.assign(options, {method: "POST", body: JSON.stringify(body),
      headers: {"Content-Type": "application/json", Authorization: `Bearer ${token.get()}`}});
  let answer;
  try {
    answer = await fetch("api/" + path, options);
  } catch (why) {
    if (stop?.aborted) throw why;
    throw new Refused(0, "away", late.aborted ? "the server has not answered in time" : "the server does not answer");
  }
  const text = await answer.text();
  let got;
  try {
    got = JSON.parse(text);
  } catch {
    got = {error: text.slice(0, 500) || answer.statusText, code: "http"};
  }
  if (!answer.ok) throw new Refused(answer.status, got.code, got.error);
  return got;
}

const query = x => new URLSearchParams(Object.entries(x).filter(([, y]) => y !== "" && y !== undefined && y !== null)).toString();

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
  document.title = [...to.rest, to.name, "gen_durable"].join(" · ");
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
  self.redraw = () => last && shown.draw(last);
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
      await pause(Math.max(1000, 20 * (performance.now() - began)), stop);
    } catch (why) {
      if (stop.aborted) return;
      if (!(why instanceof Refused)) console.error(why);
      known = false;
      const seconds = Math.min(10, 2 ** failures++);
      if (why.status === 404 && shown.missing) shown.missing();
      main.classList.add("stale");
      say(why.message, seconds);
      await pause(1000 * seconds, stop);
    }
  }
}

function say(trouble, seconds) {
  const at = $("#status");
  at.className = trouble ? "away" : "";
  put(at, ...trouble ? [data(trouble), ` – tries again in ${seconds} s `, button("look", {}, "Now")]
    : [document.createTextNode("")]);
}

document.addEventListener("visibilitychange", () => document.hidden || look());
addEventListener("online", look);
addEventListener("hashchange", show);

// -- dialogs --------------------------------------------------------------------

// Shows a form; `go` gets what was filled in, and its answer is shown, or why it was refused.
let submit;
function open(title, content, buttons) {
  const dialog = $("#dialog");
  dialog.replaceChildren(h("form", {method: "dialog"},
    h("h2", {id: "dialog-title"}, title), ...content,
    h("div", {id: "dialog-said", role: "status"}),
    h("div", {class: "row"}, button("close", {}, "Close"), ...buttons)));
  if (!dialog.open) dialog.showModal();
  $("input, textarea, select, button:not([data-do=close])", dialog)?.focus();
}
const told = (...nodes) => put($("#dialog-said"), ...nodes);
const field = (name, label, attributes = {}) => h("label", {}, label, h("input", {name, autocomplete: "off", ...attributes}));
const filled = () => Object.fromEntries([...new FormData($("#dialog form"))].map(([k, v]) => [k, v.trim()]));

const writes = (...nodes) => about.writes ? nodes : [];

// -- verbs -----------------------------------------------------------------------

function ask_token(then) {
  open("The token of this server", [
    h("p", {}, "Verbs need it. It stays in this tab, until that is closed."),
    field("token", "Token", {type: "password", required: true, maxlength: 1000}),
  ], [token.get() && button("forget", {}, "Forget it"), h("button", {}, "Use it")]);
  submit = async x => {
    const got = await ask("about", {bearer: x.token});
    if (!got.authorized) return told(h("p", {class: "bad"}, "That is not the token."));
    token.set(x.token);
    $("#dialog").close();
    then?.();
  };
}

const ended = x => x.status === "done" || x.status === "failed";
const movable = x => x.status !== "executing" && x.status !== "done";
const reason = () => [field("reason", "Reason, for the history", {maxlength: 8000}), field("by", "By whom", {maxlength: 200, value: by})];
let by = ""; // who has been named last

const verbs = {
  retry: {name: "Retry", fits: x => x.status === "failed", fields: reason,
    effect: "Due now, with the inputs that it failed on; attempt, crashes and trials begin anew."},
  stop: {name: "Stop", fits: x => !ended(x), fields: reason,
    effect: "It fails, with the reason. If it executes, its lease is taken away: its step is told at the next heartbeat, and its outcome changes nothing."},
  "run-now": {name: "Run now", fits: x => x.status === "runnable", fields: reason,
    effect: "What is to begin later, or to be tried again later, is due now."},
  move: {name: "Move", fits: movable,
    effect: "To another queue, or another priority; lower is more urgent.",
    fields: () => [field("queue", "To queue", {maxlength: 255}),
      field("priority", "Priority", {type: "number", min: -32768, max: 32767}), reason()]},
  upgrade: {name: "Upgrade", fits: movable,
    effect: "To another version of its machine. A node that has both versions does it at its next sweep; it decodes the state, or leaves the instance as it is.",
    fields: () => [field("to_version", "To version", {type: "number", min: 1, required: true}),
      field("to_steps", "Steps with other names there: old=new, old=new", {}), reason()]},
  rewind: {name: "Rewind", effect: "Back to the step and the state of that entry of its history. Signals that it has consumed since do not come back.",
    fields: reason},
  signal: {name: "Signal", fits: x => !ended(x), effect: "Into its inbox, where its step takes it.",
    fields: x => [field("name", "Name", {required: true, maxlength: 255, value: x.awaits ?? ""}),
      h("label", {}, "Payload, as JSON", h("textarea", {name: "payload", rows: 4, spellcheck: "false"})),
      field("dedup_key", "Dedup key", {maxlength: 1024})]},
  pause: {name: "Pause", effect: "Nothing begins in that queue, on all nodes, until it is resumed. What runs there ends.", fields: reason},
  resume: {name: "Resume", effect: "Instances of that queue begin again.", fields: () => []},
  cancel: {name: "Cancel", effect: "The job does not go on. What it has done stays.", fields: () => []},
};

// What was filled in, as the server takes it.
function body_of(verb, x) {
  const body = {verb};
  for (const [name, text] of Object.entries(x))
    if (text !== "") body[name] = name === "priority" || name === "to_version" ? Number(text) : text;
  if (body.to_steps)
    body.to_steps = Object.fromEntries(body.to_steps.split(",").map(pair => {
      const [, from, to] = pair.match(/^\s*(.+?)\s*=\s*(.+?)\s*$/) ?? [];
      if (!from) throw new Refused(0, "usage", `expected old=new, got ${pair}`);
      return [from, to];
    }));
  if (x.by) by = x.by;
  return body;
}

const about_job = job => [
  h("p", {class: job.refused ? "warn" : ""}, `Job ${job.id}${job.dry_run ? " (dry run)" : ""}: ${count(job.looked_at)} looked at, `,
    h("b", {}, `${count(job.changed)} ${job.dry_run ? "fit" : "changed"}`), `, ${count(job.refused)} refused`,
    job.cancelled ? ", cancelled" : job.ended_at_us ? "." : " so far …"),
  job.last_refusal && h("p", {class: "warn"}, "The last refusal: ", data(job.last_refusal)),
  job.refused_ids.length > 0 && h("p", {}, "Refused: ", links(job.refused_ids)),
];
const links = ids => ids.map((id, i) => [i ? ", " : "", link(`/instance/${id}`, id)]);

// A job until it has ended; as long as its dialog is open.
async function follow(id) {
  const dialog = $("#dialog form");
  while (dialog.isConnected && $("#dialog").open) {
    try {
      const job = await ask(`job?id=${id}`);
      told(about_job(job));
      if (job.ended_at_us) return job;
    } catch (why) {
      if (!(why instanceof Refused) || (why.status && why.status !== 503)) throw why;
      told(h("p", {class: "bad"}, data(why.message), ": tries again"));
    }
    await pause(300, view.stop.signal);
  }
  return null;
}

// Each by itself: what would be done is judged by a look at each.
async function each(ids, verb, body) {
  const refused = [];
  let fit = 0;
  for (const [i, id] of ids.entries()) {
    try {
      if (body) {
        const answer = await ask("verb", {body: {...body, id}});
        if (answer.job && await follow(answer.job) === null) return;
        ++fit;
      } else {
        const {instance} = await ask(`instance?id=${id}`);
        instance && verb.fits(instance) ? ++fit : refused.push([id, `it is ${instance?.status ?? "deleted"}`]);
      }
    } catch (why) {
      if (!(why instanceof Refused) || why.status === 401) throw why;
      refused.push([id, why.message]);
    }
    told(h("p", {}, `${i + 1} of ${ids.length} looked at, `, h("b", {}, `${fit} ${body ? "changed" : "fit"}`), `, ${refused.length} refused`),
      refused.slice(0, 20).map(([at, said]) => h("p", {class: "warn"}, link(`/instance/${at}`, at), ": ", data(said))));
  }
}

// Asks what else is to be known, then does it. `target`: {id}, {ids}, {filter}, {queue}, {job}; of
// many there is a dry run first. `what` says for people what it is about.
function act(name, target, what, instance = {}) {
  if (!token.get()) return ask_token(() => act(name, target, what, instance));
  const verb = verbs[name];
  const many = target.ids || target.filter;
  const go = h("button", {value: "go", hidden: many}, verb.name);
  open(h("span", {}, `${verb.name}: `, data(what)), [h("p", {class: "faint"}, verb.effect), ...verb.fields(instance).flat()],
    many ? [h("button", {value: "dry"}, "Dry run"), go] : [go]);
  $("#dialog form").addEventListener("input", () => { if (many) go.hidden = true; });
  submit = async (x, how) => {
    const body = body_of(name, x);
    if (target.ids) {
      await each(target.ids, verb, how === "dry" ? null : body);
    } else {
      const answer = await ask("verb", {body: {...body, ...target, ...how === "dry" ? {dry_run: true} : {}}});
      if (answer.job && await follow(answer.job) === null) return;
      if (!many && !answer.job) {
        $("#dialog").close();
        look();
        return;
      }
    }
    go.hidden = how !== "dry" && Boolean(many);
    look();
  };
}

async function submitted(form, how) {
  const buttons = $$("button:not([data-do=close])", form);
  const x = filled();
  for (const button of buttons) button.disabled = true;
  told();
  try {
    await submit(x, how);
  } catch (why) {
    if (!(why instanceof Refused)) throw why;
    if (why.status === 401) token.set("");
    if (form.isConnected)
      told(h("p", {class: "note bad"}, data(why.message), why.code === "unknown_fate" && " It may have happened: look first.",
        why.status === 401 && [" ", button("token", {}, "Type the token in again")]));
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

// -- the views -------------------------------------------------------------------

// Those that are shown by a hash route: how they ask, and what they draw. `main` is empty before.
const views = new Map();
const status = x => h("span", {"data-status": x}, visible(x));
const machine = (fsm, version) => link(path_of(`machine/${encodeURIComponent(fsm)}/${version}`), data(`${fsm} v${version}`));
const instances = (filter, ...children) => link(path_of("instances", filter), ...children);

views.set("overview", (self, main) => ({
  load: async stop => {
    const [now, jobs] = await Promise.all([ask("overview", {stop}), ask("jobs", {stop})]);
    return {...now, ...jobs};
  },
  draw: x => {
    heard_clock(x.now_us);
    put(main, h("h1", {}, "Overview"),
      h("div", {class: "tiles"}, x.statuses.map(s => instances({status: s.status},
        h("b", {"data-count": s.status}, count(s.instances, s.estimated)), status(s.status)))),
      h("h2", {}, "Rows written"),
      h("div", {class: "plots"}, ["inserted", "updated", "deleted"].map(name => plot(name, x.rates.at_us, x.rates[name]))),
      x.not_served.map(y => h("p", {class: "note", "data-key": `nobody ${y.fsm} ${y.version} ${y.queue}`}, machine(y.fsm, y.version), " in queue ",
        data(y.queue), " is served by nobody: ", y.version_served ? "nodes that have it serve other queues" : "no node that lives has it")),
      h("h2", {}, "Queues"),
      table("Queues", [["queue"], ["nodes", "number"], ["slots", "number"], ["due", "number"], ["oldest due"], ["later", "number"],
        ["executing", "number"], ["awaiting", "number"], ["paused"], ...writes([""])],
        x.queues.map(q => [q.queue, instances({queue: q.queue}, data(q.queue)), count(q.nodes), count(q.slots), counted(q.due),
          when(q.oldest_due_us), counted(q.later), counted(q.executing), count(q.awaiting, q.awaiting_estimated),
          q.paused && h("span", {class: "warn"}, "since ", when(q.paused_at_us), q.paused_by && [" by ", data(q.paused_by)], q.reason && [": ", data(q.reason)]),
          ...writes(button(q.paused ? "resume" : "pause", {"data-queue": q.queue}, q.paused ? "Resume" : "Pause"))])),
      h("h2", {}, "Nodes"),
      table("Nodes", [["node"], ["lives"], ["host"], ["process", "number"], ["slots", "number"], ["queues"], ["machines"], ["library"], ["started"], ["last seen"]],
        x.nodes.map(n => [n.incarnation, data(n.node), n.lives ? h("span", {class: "good"}, "yes") : h("span", {class: "bad"}, "no"), data(n.host),
          String(n.process), count(n.slots), data(n.queues.join(", ")), data(n.machines.join(", ")), data(n.library), when(n.started_at_us), when(n.seen_at_us)])),
      h("h2", {}, "Jobs"),
      x.jobs.length === 0 ? h("p", {class: "faint"}, "None.") : table("Jobs", [["job", "number"], ["what"], ["filter"], ["by"], ["state"], ["done", "number"],
        ["looked at", "number"], ["changed", "number"], ["refused", "number"], ["made"], ...writes([""])],
        x.jobs.map(j => [j.id, j.id, `${j.what.replace("_", "-")}${j.dry_run ? " (dry run)" : ""}`, data(cut(j.which, 500)), data(j.by ?? ""),
          j.cancelled ? "cancelled" : j.ended_at_us ? "ended" : j.worked_on ? "runs" : "waits",
          `${j.ended_at_us || j.highest_id <= 0 ? 100 : Math.floor(100 * Math.max(0, j.last_id) / j.highest_id)} %`,
          count(j.looked_at), count(j.changed),
          h("span", {title: j.last_refusal && visible(j.last_refusal)}, count(j.refused)), when(j.created_at_us),
          ...writes(!j.ended_at_us && button("cancel", {"data-job": j.id}, "Cancel"))])),
    );
  },
}));

views.set("machines", (self, main) => ({
  load: stop => ask("machines", {stop}),
  draw: ({machines}) => put(main, h("h1", {}, "Machines"),
    table("Machines", [["machine"], ["inserts"], ["served by"], ...statuses.map(x => [x, "number"])],
      machines.map(({machine: m, instances: n, estimated}) => [`${m.version} ${m.fsm}`, machine(m.fsm, m.version),
        m.pinned ? "pinned" : m.retired ? "retired" : "",
        m.nodes > 0 ? `${m.nodes} ${m.nodes === 1 ? "node" : "nodes"}`
          : h("span", {class: "warn"}, "nobody ", m.last_served_us ? ["since ", when(m.last_served_us)] : "yet"),
        ...statuses.map(s => instances({machine: m.fsm, version: m.version, status: s}, count(n[s] ?? 0, estimated.includes(s))))]))),
}));
const statuses = ["runnable", "executing", "awaiting_signal", "done", "failed"];

views.set("machine", (self, main) => ({
  load: stop => ask("machine?" + query({name: self.rest[0], version: self.rest[1]}), {stop}),
  missing: () => put(main, h("p", {class: "note bad"}, "No node has made it known. ",
    instances({machine: self.rest[0], version: self.rest[1]}, "Its instances"))),
  draw: x => put(main, h("h1", {}, data(`${x.fsm} v${x.version}`)),
    h("div", {class: "graph", tabindex: 0, role: "region", "aria-label": "Graph"}, graph(x)),
    x.handled && h("p", {}, "When a step fails, the handler may go on ",
      x.handler_to ? ["with ", data(x.handler_to.join(", ") || "no other step")] : "anywhere", "."),
    x.steps.some(y => !y.known) && h("p", {class: "note"}, "Instances stand at steps that the machine does not have."),
    h("p", {class: "faint"}, "Dashed: what the handler does. Thick: what is open to those outside. Rounded: instances rest there. ~: an estimate."),
    h("h2", {}, "Steps"),
    table("Steps", [["step"], ["leads to"], ...statuses.map(s => [s, "number"])], x.steps.map(y => [y.name,
      instances({machine: x.fsm, version: x.version, step: y.name}, data(y.name)),
      !y.known ? h("span", {class: "bad"}, "no step of the machine")
        : [y.to ? data(y.to.join(", ")) : y.rests || y.ends ? "" : "anywhere", y.outside.length > 0 && [" from outside: ", data(y.outside.join(", "))],
          y.then && [` after ${span(y.after_us)}: `, data(y.then)]],
      ...statuses.map(s => instances({machine: x.fsm, version: x.version, step: y.name, status: s}, count(y.instances[s] ?? 0, x.estimated.includes(s))))]))),
}));

// -- instances, by filter ----------------------------------------------------------

const page_rows = 100;
const most_pages = 20; // each looks at 10,000 instances
const filters = [["machine", "Machine"], ["version", "Version", {inputmode: "numeric", pattern: "[1-9][0-9]*", class: "short"}], ["step", "Step"],
  ["status", "Status"], ["queue", "Queue"], ["older", "Not changed for", {placeholder: "10m, 2h, 7d", class: "short"}], ["failure", "Text in last error"]];
let last_list = "#/instances";

views.set("instances", (self, main) => {
  last_list = location.hash;
  const filter = Object.fromEntries(filters.map(([name]) => [name, self.query[name] ?? ""]).filter(([, x]) => x));
  const chosen = self.chosen = new Set();
  self.filter = filter.version ? {...filter, version: Number(filter.version)} : filter;
  const rows = h("div", {id: "rows"});
  main.append(h("h1", {}, "Instances"),
    h("form", {class: "filters", id: "filters"}, filters.map(([name, label, more]) => h("label", {}, label,
      name === "status" ? h("select", {name}, ["", ...statuses].map(s => h("option", {value: s, selected: s === self.query.status}, s || "any")))
        : h("input", {name, value: self.query[name] ?? "", autocomplete: "off", spellcheck: "false", maxlength: 1000, ...more}))),
      h("button", {}, "Filter"), link("/instances", "All")),
    rows);
  return {
    load: async stop => {
      const all = [];
      let next = self.query.before;
      for (let i = 0; i < most_pages; ++i) {
        const page = await ask("instances?" + query({...filter, before: next, limit: page_rows - all.length}), {stop});
        all.push(...page.rows);
        next = page.next;
        if (!next || all.length >= page_rows) break;
      }
      return {rows: all, next};
    },
    draw: x => {
      self.rows = x.rows;
      for (const id of chosen) if (!x.rows.some(y => y.id === id)) chosen.delete(id);
      const pick = about.writes && ((label, id) => h("input", {type: "checkbox", "aria-label": label, "data-pick": id,
        checked: id === "all" ? x.rows.length > 0 && chosen.size === x.rows.length : chosen.has(id)}));
      put(rows,
        about.writes && h("div", {class: "row", "data-key": "verbs"}, h("label", {}, "Do ", h("select", {id: "bulk", "aria-label": "Verb", "data-kept": true},
          ["retry", "stop", "run-now", "move", "upgrade"].map(name => h("option", {value: name}, verbs[name].name)))),
          button("bulk-chosen", {disabled: chosen.size === 0}, `with the selected (${chosen.size})`),
          button("bulk-all", {disabled: Object.keys(filter).length === 0}, "with all that fit the filter")),
        table("Instances", [...writes([pick && pick("Select all", "all")]), ["id", "number"], ["machine"], ["step"], ["status"], ["queue"], ["priority", "number"],
          ["attempt", "number"], ["changed", "time"], ["last error"]],
          x.rows.map(r => [r.id, ...writes(pick && pick(`Select ${r.id}`, r.id)), link(`/instance/${r.id}`, r.id), machine(r.fsm, r.version), data(r.step), status(r.status),
            data(r.queue), String(r.priority), String(r.attempt), when(r.updated_at_us), data(cut(r.last_error ?? "", 200))])),
        x.rows.length === 0 && h("p", {class: "faint", "data-key": "none"}, x.next ? "None here; there may be more below." : "None."),
        h("p", {class: "row", "data-key": "pages"},
          self.query.before && instances(filter, "Newest"),
          x.next ? h("a", {href: "#" + path_of("instances", {...filter, before: x.next}), id: "older"}, "Older")
            : h("span", {class: "faint"}, "There is no more.")));
    },
  };
});

// -- one instance ------------------------------------------------------------------

const most_shown = 200_000; // characters of a value, if nobody asks for all

function value(key, text, self) {
  const all = self.whole.has(key);
  const shown = pretty(all ? text : text.slice(0, most_shown));
  return [h("pre", {"data-key": key, tabindex: 0, "aria-label": key}, visible(shown)),
    !all && text.length > most_shown && h("p", {"data-key": `whole ${key}`}, button("whole", {"data-value": key}, `Show all ${count(text.length)} characters`))];
}
const broken = why => h("p", {class: "note bad"}, data(why));

function facts(x) {
  const rows = [["machine", machine(x.fsm, x.version)], ["step", instances({machine: x.fsm, version: x.version, step: x.step}, data(x.step))],
    ["status", status(x.status)],
    x.awaits === "" ? ["rests", x.deadline_us ? "until moved, or its deadline" : "until moved"]
      : x.awaits && ["awaits", data([x.awaits, ...x.awaits_also].join(", "))],
    x.deadline_us && ["deadline", when(x.deadline_us)], x.wake_reason && ["woken by", data(x.wake_reason)],
    x.last_error && ["last error", h("span", {class: "bad"}, data(x.last_error))],
    ["queue", instances({queue: x.queue}, data(x.queue))], ["priority", String(x.priority)],
    x.partition_key !== null && ["partition key", data(x.partition_key)], x.unique_key !== null && ["unique key", data(x.unique_key)],
    ["seq", String(x.seq)], ["attempt", String(x.attempt)], x.crashes > 0 && ["crashes", String(x.crashes)], x.trials > 0 && ["trials", String(x.trials)],
    x.status === "runnable" && ["eligible", when(x.eligible_at_us)],
    x.locked_by && ["lease of", data(x.locked_by)], x.lease_expires_at_us && ["lease until", when(x.lease_expires_at_us)],
    ["inserted", when(x.inserted_at_us)], ["changed", when(x.updated_at_us)], x.traceparent && ["traceparent", data(x.traceparent)]];
  return h("dl", {}, rows.filter(Boolean).map(([name, of]) => [h("dt", {}, name), h("dd", {"data-fact": name}, of)]));
}

function entry(e, x, self) {
  const folded = (what, text, why) => why ? broken(why) : text !== null && text !== undefined && h("details", {"data-open": `${what} ${e.seq}`, open: self.opened.has(`${what} ${e.seq}`)},
    h("summary", {}, what), self.opened.has(`${what} ${e.seq}`) && value(`${what} ${e.seq}`, text, self));
  const more = [e.attempt > 0 && `attempt ${e.attempt}`, x && e.version !== x.version && `v${e.version}`, e.by && ["by ", data(e.by)],
    e.wake_reason && ["woken by ", data(e.wake_reason)]].filter(Boolean);
  return h("li", {"data-key": `entry ${e.seq}`, class: e.by ? "outside" : ["done", "stop"].includes(e.outcome) ? `outcome-${e.outcome}` : null},
    h("div", {class: "row"}, h("b", {}, `${e.seq} `, data(e.outcome)),
      e.from_step && e.from_step !== e.to_step ? h("span", {}, data(e.from_step), " → ", data(e.to_step)) : data(e.to_step),
      h("time", {class: "faint", datetime: iso(e.at_us)}, iso(e.at_us).replace("T", " ")),
      ...writes(x && x.status !== "executing" && typeof e.state === "string" && button("rewind", {"data-seq": e.seq}, "Rewind to here"))),
    more.length > 0 && h("p", {class: "faint"}, more.map((y, i) => [i ? ", " : "", y])),
    e.reason && h("p", {}, data(e.reason)),
    folded("metadata", e.metadata, e.metadata_error), folded("state", e.state, e.state_error));
}

views.set("instance", (self, main) => {
  const which = self.rest[0] !== undefined ? {id: self.rest[0]}
    : self.query.key?.startsWith("\\x") ? {key_hex: self.query.key.slice(2)} : {key: self.query.key ?? ""};
  Object.assign(self, {whole: new Set(), opened: new Set(), older: [], id: which.id});
  const seen = () => Math.min(...[...self.last.history, ...self.older].map(e => e.seq));
  return {
    load: stop => ask("instance?" + query(which), {stop}),
    more: async () => {
      const {rows} = await ask("history?" + query({id: self.id, before: seen(), limit: 100}), {stop: self.stop.signal});
      self.older.push(...rows);
      self.complete = rows.length === 0;
    },
    missing: () => put(main, h("p", {class: "note bad"}, "There is no such instance. ",
      which.id && link(path_of("instance", {key: which.id}), "Look for it as a unique key"))),
    draw: got => {
      const x = self.instance = got.instance;
      self.last = got;
      self.id = x?.id ?? which.id;
      // What has come in between two looks at a long history is there, too: the newest are asked for each time.
      const first = Math.min(...got.history.map(e => e.seq));
      const history = [...got.history, ...self.older.filter(e => e.seq < first)];
      put(main, h("h1", {}, `Instance ${self.id}`),
        !x && h("p", {class: "note"}, "It is deleted; its history is still there."),
        got.why && h("p", {class: "why", id: "why", "data-cause": got.why.cause}, data(got.why.sentence + ".")),
        got.why?.details?.instance && h("p", {"data-key": "other"}, link(`/instance/${got.why.details.instance}`, `Instance ${got.why.details.instance}`)),
        x && h("div", {class: "row", "data-key": "verbs"}, ...writes(["retry", "stop", "run-now", "move", "upgrade", "signal"].filter(name => verbs[name].fits(x))
          .map(name => button(name, {}, verbs[name].name)), got.why?.cause === "queue_paused" && button("resume", {"data-queue": x.queue}, "Resume its queue"))),
        x && h("div", {class: "columns", "data-key": "columns"}, h("section", {}, h("h2", {}, "Facts"), facts(x)),
          h("section", {}, h("h2", {}, "State"), x.state === null ? broken(x.state_error ?? "none") : value("state", x.state, self),
            x.result_error ? broken(x.result_error) : x.result !== null && [h("h2", {}, "Result"), value("result", x.result, self)])),
        x && [h("h2", {}, `Inbox (${count(x.inbox)})`), got.inbox.length === 0 ? h("p", {class: "faint", "data-key": "empty"}, "Empty.")
          : table("Inbox", [["signal", "number"], ["name"], ["came"], ["dedup key"], ["payload"]], got.inbox.map(s => [s.id, s.id, data(s.name), when(s.inserted_at_us),
            data(s.dedup_key ?? ""), [data(s.payload ?? ""), s.payload_bytes > 4096 && ` … (${count(s.payload_bytes)} bytes)`]]))],
        h("h2", {}, "History"), history.length === 0 ? h("p", {class: "faint"}, "None is kept.")
          : h("ol", {class: "line"}, history.map(e => entry(e, x, self))),
        history.length >= 100 && !self.complete && h("p", {"data-key": "more"}, button("more", {}, "Earlier")));
    },
  };
});

// -- what is pressed ---------------------------------------------------------------

const of_view = () => ({id: view.id});
const doings = {
  look, help, token: () => ask_token(), forget: () => { token.set(""); $("#dialog").close(); }, close: () => $("#dialog").close(), skip: () => $("#main").focus(),
  pause: at => act("pause", {queue: at.queue}, at.queue),
  resume: at => act("resume", {queue: at.queue}, at.queue),
  cancel: at => act("cancel", {job: at.job}, `job ${at.job}`),
  rewind: at => act("rewind", {...of_view(), seq: Number(at.seq)}, `instance ${view.id}, to entry ${at.seq}`),
  "bulk-chosen": () => act($("#bulk").value, {ids: [...view.chosen]}, `${view.chosen.size} selected`),
  "bulk-all": () => act($("#bulk").value, {filter: view.filter}, Object.entries(view.filter).map(x => x.join(" ")).join(", ")),
  whole: at => { view.whole.add(at.value); view.redraw(); },
  more: async () => { await view.shown.more(); view.redraw(); },
};
for (const name of ["retry", "stop", "run-now", "move", "upgrade", "signal"])
  doings[name] = () => act(name, of_view(), `instance ${view.id}`, view.instance);

function help() {
  const keys = [["j", "k", "next, previous row"], ["Enter", "opens it"], ["x", "selects it"], ["n", "older instances"], ["/", "finds an instance"],
    ["f", "filters"], ["g o", "overview"], ["g m", "machines"], ["g i", "instances"], ["r", "looks now"], ["Esc", "closes, leaves, goes up"], ["?", "this"]];
  open("Keys", [h("dl", {}, keys.map(x => [h("dt", {}, x.slice(0, -1).map(key => [h("kbd", {}, key), " "])), h("dd", {}, x.at(-1))])),
    h("p", {class: "faint"}, `gdctl ${about.version ?? ""}, schema `, data(about.schema ?? ""), ` ${about.schema_version ?? ""}`)], []);
  submit = () => $("#dialog").close();
}

document.addEventListener("click", async event => {
  const at = event.target.closest("[data-do]");
  if (!at || at.disabled) return;
  if (at.tagName === "A") event.preventDefault();
  try {
    await doings[at.dataset.do](at.dataset);
  } catch (why) {
    if (!(why instanceof Refused)) throw why;
    say(why.message, 1);
  }
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
    if (what) location.hash = /^-?\d{1,19}$/.test(what) ? `#/instance/${what}` : "#" + path_of("instance", {key: what});
    document.activeElement.blur();
  } else if (form.id === "filters") {
    location.hash = "#" + path_of("instances", Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, v.trim()])));
  } else {
    submitted(form, event.submitter?.value);
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
  Escape: () => { location.hash = view.name === "instance" ? last_list : view.name === "machine" ? "#/machines" : location.hash; },
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
