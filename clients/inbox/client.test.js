import assert from "node:assert/strict";
import http from "node:http";
import test from "node:test";
import {InboxClient, InboxError, links, parseEvents} from "./client.js";

const serve = async (t, handle) => {
  const server = http.createServer(handle);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => { server.closeAllConnections(); server.close(); });
  return `http://127.0.0.1:${server.address().port}`;
};

test("events are complete ones, comments are none", () => {
  assert.deepEqual(parseEvents(":\n\nevent: ready\nid: 4\ndata: {\"a\":1}\n\nevent: not"), {
    events: [{event: "ready", id: "4", data: '{"a":1}'}], rest: "event: not",
  });
});

test("only http and https become links", () => {
  const hrefs = (text) => links(text).filter((p) => p.href).map((p) => p.href);
  for (const [text, want] of [
    ["see https://a.example/x?y=1, or http://b.example.", ["https://a.example/x?y=1", "http://b.example"]],
    ["javascript:alert(1) data:text/html,x ftp://c.example", []],
    ['<a href="https://d.example">x</a>', ["https://d.example"]],
    ["<img src=x onerror=alert(1)>", []],
    ["", []],
  ]) {
    assert.deepEqual(hrefs(text), want, text);
    assert.equal(links(text).map((p) => p.text).join(""), text);
  }
});

test("an expired token is replaced once, an error has its reason", async (t) => {
  const seen = [];
  const url = await serve(t, (request, response) => {
    seen.push(request.headers.authorization);
    response.statusCode = seen.length === 1 ? 401 : seen.length === 2 ? 200 : 404;
    response.setHeader("Content-Type", "application/json");
    response.end(response.statusCode === 200 ? '{"unread_count":3}' : '{"errors":["gone"]}');
  });
  let n = 0;
  const client = new InboxClient({url: url + "/", token: () => `t${++n}`});
  assert.equal(await client.unreadCount(), 3);
  await assert.rejects(client.remove("x"), (e) => e instanceof InboxError && e.status === 404 && e.message === "gone");
  assert.deepEqual(seen, ["Bearer t1", "Bearer t2", "Bearer t2"]);
});

test("a stream that breaks continues after the last event", async (t) => {
  const asked = [];
  const url = await serve(t, (request, response) => {
    asked.push(request.headers["last-event-id"] ?? "");
    response.setHeader("Content-Type", "text/event-stream");
    const id = asked.length;
    response.write(`event: notification\nid: ${id}\ndata: {"unread_count":${id},`);
    setTimeout(() => response.end(`"notification":{"id":"n${id}"}}\n\n`), 5);
  });
  const stop = new AbortController();
  const got = [];
  await new InboxClient({url, token: () => "t", firstPause: 1}).follow((event, data) => {
    if (event === "notification") got.push(data.notification.id);
    if (got.length === 3) stop.abort();
  }, {signal: stop.signal, lastEventId: "0"});
  assert.deepEqual(got, ["n1", "n2", "n3"]);
  assert.deepEqual(asked.slice(0, 3), ["0", "1", "2"]);
});

test("a page that may not read the inbox stops", async (t) => {
  const url = await serve(t, (_, response) => { response.statusCode = 403; response.end('{"errors":["origin"]}'); });
  await assert.rejects(new InboxClient({url, token: () => "t"}).follow(() => {}), {status: 403});
});
