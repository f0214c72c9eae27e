// Push notifications: subscribes the browser of the user that an InboxClient has a token for. push-worker.js is the
// other half, in the service worker.

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));

const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

const register = async (client, subscription, label) =>
  (await client.call("POST", "/inbox/push_subscriptions", {body: {...subscription.toJSON(), ...(label && {label})}})).json();

/** pushKey returns the public key of the service. */
export async function pushKey(client) {
  const response = await client.fetch(client.url + "/push_key", {credentials: "omit"});
  if (!response.ok) throw new Error(`the push key could not be read: ${response.status}`);
  return (await response.json()).public_key;
}

/**
 * subscribe subscribes this browser, or registers it again, and returns the subscription as the service stores it. Call
 * it from a click, because browsers ask the user, and again whenever a user has logged in. registration is that of the
 * service worker. It throws if the user refuses.
 */
export async function subscribe(client, registration, {label} = {}) {
  const key = await pushKey(client);
  let subscription = await registration.pushManager.getSubscription();
  const used = subscription?.options?.applicationServerKey;
  if (subscription && used && text(used) !== key) { // of another service, or of before it lost its database
    await subscription.unsubscribe();
    subscription = null;
  }
  subscription ??= await registration.pushManager.subscribe({userVisibleOnly: true, applicationServerKey: bytes(key)});
  return register(client, subscription, label);
}

/** unsubscribe ends the subscription of this browser. Call it when the user logs out. It reports whether there was one. */
export async function unsubscribe(client, registration) {
  const subscription = await registration.pushManager.getSubscription();
  if (!subscription) return false;
  // The service removes it: it learns that the browser is gone with the next message, but another user may come first.
  const {id} = await register(client, subscription);
  await client.call("DELETE", "/inbox/push_subscriptions/" + encodeURIComponent(id));
  return subscription.unsubscribe();
}

/** browsers lists the user's browsers; removeBrowser ends the subscription of one. */
export async function browsers(client) {
  return (await (await client.call("GET", "/inbox/push_subscriptions")).json()).push_subscriptions;
}

export async function removeBrowser(client, id) {
  await client.call("DELETE", "/inbox/push_subscriptions/" + encodeURIComponent(id));
}
