// The half of push notifications that runs in a service worker: importScripts("push-worker.js") in a classic one. It
// shows what arrives, and opens its page when the user clicks.

const parsed = (event) => {
  try {
    const message = event.data?.json();
    return message && typeof message.title === "string" ? message : null;
  } catch {
    return null; // not a message of the service
  }
};

// page returns the address that a notification opens, if it is one that a page may have.
const page = (address, scope) => {
  try {
    const url = new URL(address || "/", scope);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : scope;
  } catch {
    return scope;
  }
};

self.addEventListener("push", (event) => {
  const message = parsed(event);
  if (!message) return;
  // A message with the tag of an earlier one takes its place.
  event.waitUntil(self.registration.showNotification(message.title, {
    body: message.body, icon: message.icon, tag: message.tag, timestamp: Date.parse(message.created_at),
    data: {id: message.id, url: page(message.url, self.registration.scope)},
  }));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const url = event.notification.data?.url;
  if (!url) return;
  event.waitUntil((async () => {
    const windows = await self.clients.matchAll({type: "window", includeUncontrolled: true});
    const open = windows.find((w) => w.url === url);
    return open ? open.focus() : self.clients.openWindow(url);
  })());
});
