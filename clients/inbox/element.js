// <ingot-inbox url="https://notifications.example.com">: a list of notifications that stays current. The page sets
// element.token to a function that returns a token. Texts are shown as text, whatever they contain.
import {InboxClient, links} from "./client.js";

const style = `
:host { display: block; font: var(--ingot-inbox-font, inherit); color: var(--ingot-inbox-color, CanvasText);
  background: var(--ingot-inbox-background, Canvas); border: 1px solid var(--ingot-inbox-border, GrayText);
  border-radius: var(--ingot-inbox-radius, 8px); max-width: var(--ingot-inbox-width, 28rem); }
:host([hidden]) { display: none; }
header { display: flex; align-items: center; gap: .5rem; padding: .5rem .75rem; }
h2 { font-size: 1rem; margin: 0; flex: 1; }
ul { list-style: none; margin: 0; padding: 0; max-height: var(--ingot-inbox-height, 24rem); overflow: auto; }
li { padding: .5rem .75rem; border-top: 1px solid var(--ingot-inbox-border, GrayText); }
li:focus-visible, button:focus-visible { outline: 2px solid var(--ingot-inbox-accent, Highlight); outline-offset: -2px; }
li.unread h3::before { content: "● "; color: var(--ingot-inbox-accent, #1a56db); }
h3 { font-size: 1rem; margin: 0; }
li:not(.unread) h3 { font-weight: normal; }
p { margin: .25rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.state { padding: .5rem .75rem; margin: 0; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

const words = {
  title: "Notifications", unread: (n) => `${n} unread`, readAll: "Mark all as read", archive: "Archive", read: "Mark as read",
  unreadAgain: "Mark as unread", more: "Show more", empty: "No notifications.", lost: "Connecting…", arrived: (t) => `New: ${t}`,
};

const make = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};

export class IngotInbox extends HTMLElement {
  static observedAttributes = ["url"];

  constructor() {
    super();
    this.attachShadow({mode: "open"});
    this.words = {...words};
    this.token = async () => { throw new Error("set the property token of <ingot-inbox>"); };
    this.items = new Map();
    this.next = "";
    this.unread = 0;
    this.connected = false;
    this.events = 0;
  }

  connectedCallback() {
    this.list = make("ul", {tabIndex: -1});
    this.list.setAttribute("aria-labelledby", "title");
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.badge = make("span");
    this.live = make("div", {className: "hidden"});
    this.live.setAttribute("aria-live", "polite");
    this.state = make("p", {className: "state"});
    this.state.setAttribute("role", "status");
    this.all = make("button", {type: "button", textContent: this.words.readAll, onclick: () => this.try(() => this.client.markAllRead())});
    this.more = make("button", {type: "button", textContent: this.words.more, hidden: true, onclick: () => this.try(() => this.load(this.next))});
    this.shadowRoot.replaceChildren(make("style", {textContent: style}),
      make("header", {}, make("h2", {id: "title", textContent: this.words.title}), this.badge, this.all), this.list, this.state, this.more,
      this.live);
    this.stop = new AbortController();
    queueMicrotask(() => this.start()); // after the page has set properties
  }

  disconnectedCallback() { this.stop?.abort(); }

  attributeChangedCallback(_, before, now) {
    if (before !== null && before !== now && this.isConnected) {
      this.stop.abort();
      this.items.clear();
      this.connectedCallback();
    }
  }

  async start() {
    const {signal} = this.stop;
    this.client ??= new InboxClient({url: this.getAttribute("url") ?? "", token: () => this.token()});
    await this.try(async () => {
      const page = await this.load("");
      this.connected = true;
      await this.client.follow((event, data) => this.on(event, data), {signal, lastEventId: page.last_event_id});
    });
  }

  /** try shows why something failed. */
  async try(action) {
    try {
      return await action();
    } catch (error) {
      if (!this.stop.signal.aborted) this.state.textContent = error.message;
    }
  }

  async load(after) {
    const before = this.events;
    const page = await this.client.list({after});
    const late = this.events !== before; // what came meanwhile may be newer than the page
    if (late && !after) return this.load("");
    if (!after) this.items.clear();
    for (const n of page.notifications) if (!late || !this.items.has(n.id)) this.items.set(n.id, n);
    this.next = page.next;
    if (!late) this.count(page.unread_count);
    this.show();
    return page;
  }

  on(event, data) {
    if (event === "connected" || event === "disconnected") this.connected = event === "connected";
    if (data) {
      this.events++;
      this.count(data.unread_count);
    }
    if (event === "reset") this.try(() => this.load(""));
    if (event === "notification") {
      const n = data.notification;
      const known = this.items.has(n.id);
      if (n.archived_at) this.items.delete(n.id);
      else if (known) this.items.set(n.id, n);
      else {
        this.items = new Map([[n.id, n], ...this.items]);
        if (!n.read_at) this.live.textContent = this.words.arrived(n.title);
      }
      this.dispatchEvent(new CustomEvent("notification", {detail: n}));
    }
    this.show();
  }

  count(n) {
    if (n !== this.unread) this.dispatchEvent(new CustomEvent("unread", {detail: n}));
    this.unread = n;
  }

  show() {
    const focused = this.shadowRoot.activeElement?.closest("li")?.dataset.id;
    this.badge.textContent = this.unread ? this.words.unread(this.unread) : "";
    this.all.disabled = this.unread === 0;
    this.more.hidden = !this.next;
    this.state.textContent = this.connected ? (this.items.size ? "" : this.words.empty) : this.words.lost;
    this.list.replaceChildren(...[...this.items.values()].map((n) => this.row(n)));
    if (focused) this.list.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
  }

  row(n) {
    const text = make("p");
    for (const part of links(n.text)) {
      text.append(part.href ? make("a", {href: part.href, textContent: part.text, rel: "noopener noreferrer", target: "_blank"}) : part.text);
    }
    const read = make("button", {type: "button", textContent: n.read_at ? this.words.unreadAgain : this.words.read,
      onclick: () => this.try(() => this.client.markRead(n.id, !n.read_at))});
    const archive = make("button", {type: "button", textContent: this.words.archive, onclick: () => this.try(() => this.client.archive(n.id))});
    for (const button of [read, archive]) button.setAttribute("aria-label", `${button.textContent}: ${n.title}`);
    const time = make("time", {dateTime: n.created_at, textContent: new Date(n.created_at).toLocaleString()});
    const row = make("li", {tabIndex: 0, className: n.read_at ? "" : "unread"}, make("h3", {textContent: n.title}), text, time, " ", read, " ",
      archive);
    row.dataset.id = n.id;
    return row;
  }

  /** key moves between notifications with the arrow keys, as in other lists. */
  key(event) {
    const row = this.shadowRoot.activeElement?.closest("li");
    const to = {ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling, Home: this.list.firstElementChild,
      End: this.list.lastElementChild}[event.key];
    if (row && to) {
      event.preventDefault();
      to.focus();
    }
  }
}

if (!customElements.get("ingot-inbox")) customElements.define("ingot-inbox", IngotInbox);
