import assert from "node:assert/strict";
import fs from "node:fs";
import test from "node:test";
import vm from "node:vm";
import {InboxClient} from "./client.js";
import {browsers, removeBrowser, subscribe, unsubscribe} from "./push.js";

const key = Buffer.from(new Uint8Array(65).fill(4)).toString("base64url");

// a service, and a browser that may be subscribed with a key
const world = (subscribedWith) => {
  const calls = [];
  const client = new InboxClient({url: "https://n.example/", token: () => "t", fetch: async (url, options = {}) => {
    calls.push(`${options.method ?? "GET"} ${new URL(url).pathname} ${options.body ?? ""}`.trim());
    const body = url.endsWith("/push_key") ? {public_key: key} : options.method === "GET" ? {push_subscriptions: [{id: "s1"}]} : {id: "s1"};
    return {ok: true, status: 200, json: async () => body};
  }});
  const make = (of) => ({
    options: {applicationServerKey: of.buffer}, toJSON: () => ({endpoint: "https://p.example/1", keys: {p256dh: "a", auth: "b"}}),
    unsubscribe: async () => { calls.push("browser unsubscribe"); current = null; return true; },
  });
  let current = subscribedWith && make(Uint8Array.from(Buffer.from(subscribedWith, "base64url")));
  const registration = {pushManager: {
    getSubscription: async () => current ?? null,
    subscribe: async (options) => {
      assert.equal(options.userVisibleOnly, true);
      calls.push("browser subscribe " + Buffer.from(options.applicationServerKey).toString("base64url"));
      return current = make(options.applicationServerKey);
    },
  }};
  return {calls, client, registration};
};
const posted = 'POST /inbox/push_subscriptions {"endpoint":"https://p.example/1","keys":{"p256dh":"a","auth":"b"}';

test("a browser subscribes once, and again with another key", async () => {
  for (const [before, want] of [
    [undefined, ["GET /push_key", "browser subscribe " + key, posted + ',"label":"Laptop"}']],
    [key, ["GET /push_key", posted + ',"label":"Laptop"}']],
    ["AAAA", ["GET /push_key", "browser unsubscribe", "browser subscribe " + key, posted + ',"label":"Laptop"}']],
  ]) {
    const {calls, client, registration} = world(before);
    assert.deepEqual(await subscribe(client, registration, {label: "Laptop"}), {id: "s1"});
    assert.deepEqual(calls, want);
  }
});

test("a browser unsubscribes at the service and itself", async () => {
  const {calls, client, registration} = world(key);
  assert.equal(await unsubscribe(client, registration), true);
  assert.deepEqual(calls, [posted + "}", "DELETE /inbox/push_subscriptions/s1", "browser unsubscribe"]);
  assert.equal(await unsubscribe(client, registration), false);
  assert.deepEqual(await browsers(client), [{id: "s1"}]);
  await removeBrowser(client, "a/b");
  assert.equal(calls.at(-1), "DELETE /inbox/push_subscriptions/a%2Fb");
});

test("the worker shows messages, and opens their pages only", async () => {
  const on = {}, shown = [], opened = [];
  const windows = [];
  const self = {
    addEventListener: (name, f) => { on[name] = f; },
    registration: {scope: "https://shop.example/", showNotification: async (title, options) => { shown.push({title, ...options}); }},
    clients: {matchAll: async () => windows, openWindow: async (url) => { opened.push(url); }},
  };
  vm.runInNewContext(fs.readFileSync(new URL("./push-worker.js", import.meta.url), "utf8"), {self, URL, Date});
  let waiting;
  const push = async (data) => {
    waiting = undefined;
    on.push({data: {json: () => JSON.parse(data)}, waitUntil: (p) => { waiting = p; }});
    await waiting;
    return shown.at(-1);
  };
  const message = (url) => JSON.stringify({id: "m", title: "Hi <b>", body: "B", icon: "/i.png", tag: "t", url, created_at: "2026-11-19T12:00:00Z"});
  for (const [url, want] of [["/orders/7", "https://shop.example/orders/7"], ["https://other.example/x", "https://other.example/x"],
    ["javascript:alert(1)", "https://shop.example/"], [undefined, "https://shop.example/"], ["https://", "https://shop.example/"]]) {
    const n = await push(message(url));
    assert.equal(n.data.url, want);
    assert.deepEqual([n.title, n.body, n.icon, n.tag, n.timestamp], ["Hi <b>", "B", "/i.png", "t", 1795089600000]);
  }
  const before = shown.length;
  for (const bad of ["x", "null", "7", '{"title":7}']) await push(bad);
  assert.equal(shown.length, before);
  const click = async (url) => {
    on.notificationclick({notification: {close() {}, data: {url}}, waitUntil: (p) => { waiting = p; }});
    await waiting;
  };
  await click("https://shop.example/a");
  windows.push({url: "https://shop.example/b", focus: async () => { opened.push("focus"); }});
  await click("https://shop.example/b");
  assert.deepEqual(opened, ["https://shop.example/a", "focus"]);
});
