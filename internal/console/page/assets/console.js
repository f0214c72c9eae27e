// The scripts of the console, after those of internal/base/look. Every page works without
// them, as it was when it was loaded.

// What scrolls sideways can be reached with the keyboard.
function reachScrolled() {
  for (const e of document.querySelectorAll(".scroll, pre")) {
    if (e.scrollWidth <= e.clientWidth) continue;
    e.tabIndex = 0;
    e.setAttribute("role", "region");
    e.setAttribute("aria-label", (e.nodeName === "PRE" ? "Text" : "Table") + ", scrolls sideways");
  }
}

// nameOf returns what tells an element from others of its kind, or "". Rows are about their first link or form.
function nameOf(n) {
  if (n.nodeType !== Node.ELEMENT_NODE) return "";
  if (/^(TR|LI)$/.test(n.nodeName)) {
    const of = n.querySelector("a[href], form");
    return of ? of.getAttribute("href") || of.getAttribute("action") : "";
  }
  return n.id || n.getAttribute("aria-labelledby") || n.getAttribute("aria-label") || n.getAttribute("action") || "";
}

// morph makes the children of an element those of another one, and keeps what is the same,
// so that focus, selection and open parts survive.
function morph(from, to) {
  const fresh = [...to.childNodes];
  const isSame = (a, b) => a.nodeName === b.nodeName && nameOf(a) === nameOf(b);
  for (let i = 0; i < fresh.length; i++) {
    const b = fresh[i];
    let a = from.childNodes[i];
    if (a && nameOf(b) && !isSame(a, b)) {
      // What was inserted or removed before an element does not make it another one.
      const there = [...from.childNodes].slice(i + 1).find((n) => isSame(n, b));
      const later = nameOf(a) && fresh.slice(i + 1).some((n) => isSame(a, n));
      if (there && !later) {
        while (from.childNodes[i] !== there) from.childNodes[i].remove();
        a = there;
      } else if (later) {
        a.before(b);
        continue;
      }
    }
    if (!a) {
      from.append(b);
    } else if (a.nodeType !== b.nodeType || a.nodeName !== b.nodeName) {
      a.replaceWith(b);
    } else if (a.nodeType !== Node.ELEMENT_NODE) {
      if (a.nodeValue !== b.nodeValue) a.nodeValue = b.nodeValue;
    } else {
      for (const { name } of [...a.attributes]) {
        if (!b.hasAttribute(name) && !(a.nodeName === "DETAILS" && name === "open")) a.removeAttribute(name);
      }
      for (const { name, value } of b.attributes) {
        if (a.getAttribute(name) !== value && !(a === document.activeElement && name === "value")) a.setAttribute(name, value);
      }
      if (a.nodeName !== "TIME" || a.dateTime !== b.dateTime || !a.firstChild) morph(a, b);
    }
  }
  while (from.childNodes.length > fresh.length) from.lastChild.remove();
}

// again connects once more after a stream was refused, unless the session has ended or the app
// was deleted: then the page says so.
function again(connect) {
  setTimeout(async () => {
    try {
      const r = await fetch(location.href, { method: "HEAD" });
      if (r.status === 401 || r.status === 404) return location.reload();
    } catch { /* the server restarts */ }
    connect();
  }, 3000);
}

// A live page gets its changed part from the server while it is visible.
function live() {
  const path = document.body.dataset.live, target = document.getElementById("live");
  if (!path || !target || !window.EventSource) return;
  // Screen readers are told what changed of the parts that say how things are.
  const announce = document.getElementById("announce");
  const said = () => [...target.querySelectorAll("[data-say]")].map((e) => (e.dataset.say || e.textContent).trim().replace(/\s+/g, " "));
  let source = null;
  const connect = () => {
    if (source) source.close();
    source = null;
    if (document.hidden) return;
    source = new EventSource(path);
    source.addEventListener("fragment", (e) => {
      const t = document.createElement("template");
      t.innerHTML = JSON.parse(e.data);
      const before = said(), focused = target.contains(document.activeElement);
      morph(target, t.content);
      // A control that is gone leaves the focus where it was, and not at the top of the page.
      if (focused && !target.contains(document.activeElement)) {
        target.tabIndex = -1;
        target.focus({ preventScroll: true });
      }
      const news = said().filter((one) => !before.includes(one));
      if (news.length) announce.textContent = news.join(". ");
      showTimes(document);
      reachScrolled();
    });
    source.addEventListener("reload", () => location.reload());
    source.onerror = () => {
      if (source && source.readyState === EventSource.CLOSED) again(connect);
    };
  };
  document.addEventListener("visibilitychange", connect);
  connect();
}

// The live log. A page draws fewer lines than an app can write: the server sends as many as can
// be drawn and says how many it skipped, and the page does the same. The download has all.
function liveLog() {
  const log = document.getElementById("log");
  if (!log || !window.EventSource) return;
  const form = document.getElementById("log-filter"), state = document.getElementById("log-state");
  const pause = document.getElementById("log-pause"), wrap = document.getElementById("log-wrap");
  // most is how many lines the page keeps; perFrame, how many it draws before it answers again;
  // behind, how many may wait before it skips to the newest ones.
  const most = 2000, perFrame = 250, behind = 500, newest = 100;
  let waiting = [], skipped = 0, scheduled = false, paused = false, last = "", source = null, timer = 0;
  // following means that the page shows the newest lines; at is where it last scrolled to. The
  // heights of lines that were never on the screen are estimates: the end itself moves.
  let following = true, at = 0;

  const element = (l) => {
    const div = document.createElement("div");
    div.className = "line" + (l.err ? " err" : "");
    div.id = "L" + l.id;
    const time = document.createElement("a"), at = Number(l.id.slice(0, -6));
    time.className = "at";
    time.textContent = clock(new Date(at));
    time.dataset.at = at;
    time.href = log.dataset.link + "?at=" + l.id + "#L" + l.id;
    const source = document.createElement("span");
    source.className = "source";
    source.textContent = l.source + "/" + l.instance;
    div.append(time, " ", source, " " + l.text);
    return div;
  };
  const gap = (n) => {
    const div = document.createElement("div");
    div.className = "line gap";
    div.textContent = n.toLocaleString("en") + (n === 1 ? " line" : " lines") + " skipped: faster than this page can show them. The download has them.";
    return div;
  };
  // Lines are in chunks: the browser lays out only those that are on the screen, and many small
  // ones would cost more than they save.
  const perChunk = 100;
  let count = log.querySelectorAll(".line").length;
  const append = (lines) => {
    for (let i = 0; i < lines.length;) {
      let chunk = log.lastElementChild;
      if (!chunk || chunk.childElementCount >= perChunk) {
        chunk = document.createElement("div");
        chunk.className = "chunk";
        log.append(chunk);
      }
      const part = lines.slice(i, i + perChunk - chunk.childElementCount);
      chunk.append(...part);
      i += part.length;
    }
    count += lines.length;
    for (let first; (first = log.firstElementChild) && count - first.childElementCount >= most;) {
      count -= first.childElementCount;
      first.remove();
    }
  };
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const toEnd = () => {
    if (!following) return;
    log.scrollTop = log.scrollHeight;
    at = log.scrollTop;
  };
  const draw = () => {
    scheduled = false;
    if (paused) return;
    if (!(waiting.length || skipped)) return toEnd();
    // A user who has scrolled back is reading: the lines on the screen do not move.
    if (!following && count >= most) {
      state.textContent = "new lines at the end";
      return;
    }
    const all = waiting.splice(0, perFrame).map(element);
    if (skipped) all.unshift(gap(skipped));
    skipped = 0;
    append(all);
    toEnd();
    state.textContent = "live";
    if (following || waiting.length) schedule();
  };
  const schedule = () => {
    if (scheduled || paused) return;
    scheduled = true;
    requestAnimationFrame(draw);
  };
  const add = (e) => {
    last = e.lastEventId;
    const v = JSON.parse(e.data);
    if (v.skipped) {
      skipped += v.skipped + waiting.length;
      waiting = [];
    }
    waiting.push(...v.lines);
    if (waiting.length > behind) {
      skipped += waiting.length - newest;
      waiting = waiting.slice(-newest);
    }
    if (paused) state.textContent = (skipped + waiting.length).toLocaleString("en") + " new lines";
    schedule();
  };
  const connect = () => {
    if (source) source.close();
    const query = new URLSearchParams(new FormData(form));
    if (last) query.set("after", last);
    else query.set("since", log.dataset.since);
    source = new EventSource(log.dataset.stream + "?" + query);
    source.onopen = () => { if (!paused) state.textContent = "live"; };
    source.addEventListener("lines", add);
    source.addEventListener("end", (e) => {
      source.close();
      const v = JSON.parse(e.data);
      state.textContent = v.reason;
      if (v.resume) setTimeout(connect, 1000);
    });
    source.onerror = () => {
      state.textContent = "disconnected";
      if (source.readyState === EventSource.CLOSED) again(connect);
    };
  };
  // The server applies the filter to new lines, so that what it hides is not sent.
  form.addEventListener("input", (e) => {
    if (!log.dataset.stream || e.target === wrap) return;
    clearTimeout(timer);
    timer = setTimeout(connect, 300);
  });
  log.addEventListener("scroll", () => {
    if (atEnd()) {
      if (!following) schedule();
      following = true;
    } else if (log.scrollTop < at - 5) {
      following = false;
    }
  }, { passive: true });
  log.addEventListener("mouseover", (e) => {
    const at = e.target.dataset && e.target.dataset.at;
    if (at && !e.target.title) e.target.title = exact.format(Number(at)) + " (" + new Date(Number(at)).toISOString() + ")";
  });
  pause.hidden = !log.dataset.stream;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Continue" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) { state.textContent = "live"; draw(); }
  });
  wrap.addEventListener("change", () => log.classList.toggle("wrap", wrap.checked));
  if (!log.dataset.stream) {
    const line = document.getElementById(location.hash.slice(1));
    if (line) line.scrollIntoView({ block: "center" });
    return;
  }
  toEnd();
  schedule();
  connect();
}

document.addEventListener("keydown", (e) => {
  const typing = document.activeElement && /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.nodeName);
  if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
    const find = document.getElementById("find");
    if (find) { e.preventDefault(); find.focus(); }
  }
});

// Files can be dropped on a form: a zip becomes the file of its input, and the files of a folder are sent as if the
// folder was chosen. Without this, both inputs work.
const drop = document.querySelector("[data-drop]");
if (drop) {
  const zip = drop.querySelector("input[name=zip]"), folder = drop.querySelector("input[name=folder]");
  const said = drop.querySelector("[data-dropped]");
  let dropped = [];
  const read = (f) => new Promise((done, failed) => f(done, failed));
  // filesOf returns the files below entries, with their paths. Folders are read one after another.
  const filesOf = async (entries) => {
    const found = [], waiting = [...entries];
    while (waiting.length) {
      const e = waiting.shift();
      if (e.isFile) {
        found.push([await read((d, f) => e.file(d, f)), e.fullPath.replace(/^\//, "")]);
      } else if (e.name !== ".git") {
        const reader = e.createReader();
        for (;;) {
          const some = await read((d, f) => reader.readEntries(d, f));
          if (!some.length) break;
          waiting.push(...some);
        }
      }
    }
    return found;
  };
  const forget = () => { dropped = []; said.textContent = ""; };
  zip.addEventListener("change", () => { forget(); if (zip.files.length) folder.value = ""; });
  folder.addEventListener("change", () => { forget(); if (folder.files.length) zip.value = ""; });
  drop.addEventListener("dragover", (e) => { e.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", async (e) => {
    e.preventDefault();
    drop.classList.remove("over");
    forget();
    const entries = [...e.dataTransfer.items].map((i) => i.webkitGetAsEntry()).filter(Boolean);
    folder.value = "";
    if (entries.length === 1 && entries[0].isFile && /\.(zip|jar|war)$/i.test(entries[0].name)) {
      zip.files = e.dataTransfer.files;
      said.textContent = entries[0].name + " will be deployed.";
      return;
    }
    zip.value = "";
    try {
      dropped = await filesOf(entries);
      // Files beside each other are those of a folder without a name.
      if (!(entries.length === 1 && entries[0].isDirectory)) dropped = dropped.map(([f, path]) => [f, "files/" + path]);
      said.textContent = dropped.length + (dropped.length === 1 ? " file" : " files") + " will be deployed.";
    } catch {
      said.textContent = "The folder cannot be read: choose it with the button instead.";
    }
  });
  drop.closest("form").addEventListener("formdata", (e) => {
    for (const [file, path] of dropped) e.formData.append("folder", file, path);
  });
  drop.classList.add("ready");
}

// Values of secrets are shown on demand.
const reveal = document.getElementById("reveal");
if (reveal) {
  reveal.hidden = false;
  reveal.addEventListener("click", () => {
    const show = reveal.getAttribute("aria-pressed") !== "true";
    reveal.setAttribute("aria-pressed", String(show));
    reveal.textContent = show ? "Hide values" : "Show values";
    for (const i of document.querySelectorAll("input.secret")) i.type = show ? "text" : "password";
  });
}

// Values are copied where the browser allows it: with TLS, and on this machine.
for (const button of document.querySelectorAll("button.copy")) {
  const from = document.getElementById(button.dataset.copy);
  if (!from || !navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      // Of commands with their output, only the commands.
      const typed = [...from.querySelectorAll(".typed")].map((e) => e.textContent).join("\n");
      await navigator.clipboard.writeText(typed || from.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(from);
      button.textContent = "Selected";
    }
  });
}

// The result of a form is where the next page begins, unless someone types already.
const result = document.querySelector("main > .problem, main > .said");
if (result && document.activeElement === document.body) result.focus();

reachScrolled();
window.addEventListener("resize", reachScrolled);
live();
liveLog();
