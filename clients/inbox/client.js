// The client of an inbox: reads and changes notifications, and follows events. It needs no framework; the element in
// element.js uses it.

/** InboxError is an answer that is not a success. */
export class InboxError extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.name = "InboxError";
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** parseEvents returns the complete events at the beginning of a text, and the rest of it. */
export function parseEvents(text) {
  const events = [];
  for (;;) {
    const end = text.indexOf("\n\n");
    if (end < 0) return {events, rest: text};
    const event = {event: "message", id: "", data: ""};
    for (const line of text.slice(0, end).split("\n")) {
      const colon = line.indexOf(":");
      if (colon < 1) continue; // a comment keeps the connection open
      const value = line.slice(colon + 1).replace(/^ /, "");
      const name = line.slice(0, colon);
      if (name === "data") event.data += (event.data && "\n") + value;
      else if (name in event) event[name] = value;
    }
    if (event.data) events.push(event);
    text = text.slice(end + 2);
  }
}

/** links divides a text at its http and https addresses. Nothing else ever becomes a link. */
export function links(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(/\bhttps?:\/\/[^\s<>"'`]+/g)) {
    const href = match[0].replace(/[.,;:!?)\]}]+$/, "");
    if (!URL.canParse(href)) continue;
    if (match.index > from) parts.push({text: text.slice(from, match.index)});
    parts.push({text: href, href});
    from = match.index + href.length;
  }
  if (from < text.length) parts.push({text: text.slice(from)});
  return parts;
}

const wait = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, {once: true});
});

export class InboxClient {
  /** token returns a token of the app's own server, which issues it; it is asked again when one has expired. */
  constructor({url, token, fetch = globalThis.fetch.bind(globalThis), firstPause = 1000, longestPause = 60000}) {
    this.url = url.replace(/\/+$/, "");
    this.getToken = token;
    this.fetch = fetch;
    this.firstPause = firstPause;
    this.longestPause = longestPause;
    this.current = "";
  }

  async call(method, path, {body, headers, signal} = {}) {
    for (let attempt = 0; ; attempt++) {
      if (!this.current) this.current = await this.getToken();
      const response = await this.fetch(this.url + path, {
        method, signal, cache: "no-store", credentials: "omit",
        headers: {Authorization: "Bearer " + this.current, ...(body && {"Content-Type": "application/json"}), ...headers},
        body: body && JSON.stringify(body),
      });
      if (response.ok) return response;
      if (response.status === 401) {
        this.current = "";
        if (attempt === 0) continue;
      }
      const answer = await response.json().catch(() => ({}));
      throw new InboxError(response.status, (answer.errors ?? []).join(" ") || response.statusText,
        Number(response.headers.get("Retry-After")) || 0);
    }
  }

  async list({archived, unread, limit, after} = {}) {
    const query = new URLSearchParams();
    if (archived) query.set("archived", "true");
    if (unread) query.set("unread", "true");
    if (limit) query.set("limit", String(limit));
    if (after) query.set("after", after);
    const text = query.toString();
    return (await this.call("GET", "/inbox/notifications" + (text && "?" + text))).json();
  }

  async unreadCount() { return (await (await this.call("GET", "/inbox/unread_count")).json()).unread_count; }

  async change(id, body) {
    return (await this.call("PATCH", "/inbox/notifications/" + encodeURIComponent(id), {body})).json();
  }

  markRead(id, read = true) { return this.change(id, {read}); }
  archive(id, archived = true) { return this.change(id, {archived}); }
  async remove(id) { await this.call("DELETE", "/inbox/notifications/" + encodeURIComponent(id)); }
  async markAllRead() { return (await (await this.call("POST", "/inbox/read_all")).json()).read; }

  /**
   * follow calls on(event, data) for each event until signal is aborted. It connects again, later each time, and
   * continues after the last event, so that none is missed. on("connected") and on("disconnected") tell about that.
   */
  async follow(on, {signal, lastEventId = ""} = {}) {
    let pause = this.firstPause;
    while (!signal?.aborted) {
      try {
        const response = await this.call("GET", "/inbox/events", {signal, headers: lastEventId ? {"Last-Event-ID": lastEventId} : {}});
        on("connected");
        await this.read(response.body.getReader(), signal, (event) => {
          pause = this.firstPause;
          if (event.id) lastEventId = event.id;
          on(event.event, JSON.parse(event.data));
        });
      } catch (error) {
        if (signal?.aborted) return;
        if (error instanceof InboxError && error.status === 403) throw error;
        pause = Math.max(pause, (error.retryAfter ?? 0) * 1000);
      }
      if (signal?.aborted) return;
      on("disconnected");
      await wait(pause * (0.5 + Math.random() / 2), signal);
      pause = Math.min(2 * pause, this.longestPause);
    }
  }

  /** read calls on for each event until the stream ends or signal is aborted. */
  async read(reader, signal, on) {
    // Aborting alone is not enough: fetch may never settle a read of a stream that has just ended.
    const cancel = () => { reader.cancel().catch(() => {}); };
    signal?.addEventListener("abort", cancel, {once: true});
    try {
      const decoder = new TextDecoder();
      for (let rest = ""; !signal?.aborted;) {
        const {done, value} = await reader.read();
        if (done) return;
        const parsed = parseEvents(rest + decoder.decode(value, {stream: true}));
        rest = parsed.rest;
        for (const event of parsed.events) on(event);
      }
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }
}
