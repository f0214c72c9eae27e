// The terminal of the page of a shell. The emulator draws on a canvas, because its other
// renderers need style elements, which the content security policy does not allow.
"use strict";

(() => {
  const at = document.getElementById("shell"), state = document.getElementById("shell-state");
  const again = document.getElementById("shell-again"), reader = document.getElementById("shell-reader");
  if (!at || !window.Terminal || !window.WebSocket) return;

  const term = new Terminal({
    cursorBlink: true, fontFamily: "ui-monospace, monospace", fontSize: 14, scrollback: 5000,
    theme: { background: "#16181b", foreground: "#e8eaed", cursor: "#7ab8ff", selectionBackground: "#3d5a80" },
  });
  const fit = new FitAddon.FitAddon();
  term.loadAddon(new CanvasAddon.CanvasAddon());
  term.loadAddon(fit);
  term.open(at);
  fit.fit();

  // The emulator takes all keys, so that one has to lead out of it.
  term.attachCustomKeyEventHandler((e) => {
    if (e.key !== "Enter" || !e.ctrlKey || !e.shiftKey) return true;
    if (e.type === "keydown") document.querySelector("#shell-again:not([hidden]), #shell-reader").focus();
    return false;
  });
  reader.addEventListener("change", () => { term.options.screenReaderMode = reader.checked; });

  const encoder = new TextEncoder();
  const most = 16384; // bytes of a message
  let socket = null, unconfirmed = 0;

  const control = (message) => {
    if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };
  const ended = (text) => {
    state.textContent = text;
    again.hidden = false;
    term.options.disableStdin = true;
    term.options.cursorBlink = false;
  };
  const connect = () => {
    const url = new URL(at.dataset.socket, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("columns", term.cols);
    url.searchParams.set("rows", term.rows);
    let status = null;
    const mine = socket = new WebSocket(url, ["ingot-shell", at.dataset.csrf]);
    mine.binaryType = "arraybuffer";
    state.textContent = "connecting";
    again.hidden = true;
    unconfirmed = 0;
    mine.onopen = () => {
      state.textContent = "connected";
      term.options.disableStdin = false;
      term.options.cursorBlink = true;
      term.focus();
    };
    mine.onmessage = (e) => {
      if (typeof e.data === "string") {
        status = JSON.parse(e.data).exit;
        return;
      }
      // The server waits until what it has sent is drawn.
      const bytes = new Uint8Array(e.data);
      term.write(bytes, () => {
        unconfirmed += bytes.length;
        if (unconfirmed >= 65536) { control({ shown: unconfirmed }); unconfirmed = 0; }
      });
    };
    mine.onclose = (e) => {
      if (mine !== socket) return;
      if (status !== null && status !== undefined) return ended("The shell exited with status " + status + ".");
      ended(e.reason || "The connection was lost.");
    };
  };
  const send = (bytes) => {
    if (!socket || socket.readyState !== WebSocket.OPEN) return;
    for (let i = 0; i < bytes.length; i += most) socket.send(bytes.subarray(i, i + most));
  };
  term.onData((text) => send(encoder.encode(text)));
  term.onBinary((text) => send(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  term.onResize(({ cols, rows }) => control({ columns: cols, rows }));
  again.addEventListener("click", () => { term.reset(); connect(); });
  new ResizeObserver(() => fit.fit()).observe(at);
  connect();
})();
