// The editor of templates: errors at their place, and the preview, while one writes. Without
// this script, the button Preview does the same.
"use strict";

(() => {
  const form = document.getElementById("template-editor");
  if (!form) return;
  const button = document.getElementById("preview-now"), frames = form.querySelector(".frames");
  const fields = { subject: form.elements.subject, html: form.elements.html, text: form.elements.text };
  let last = fields.html, timer = 0, round = 0;

  // place selects the character at a line and column, both from 1.
  const place = (field, line, column) => {
    const lines = field.value.split("\n");
    let at = 0;
    for (let i = 0; i < line - 1 && i < lines.length; i++) at += lines[i].length + 1;
    // Columns count characters, positions UTF-16 units.
    at += [...(lines[line - 1] || "")].slice(0, column - 1).join("").length;
    field.focus();
    field.setSelectionRange(at, Math.min(at + 1, field.value.length));
    field.scrollTop = field.scrollHeight * (line - 1) / Math.max(1, lines.length) - field.clientHeight / 2;
  };

  const mark = (problems) => {
    for (const list of form.querySelectorAll(".problems")) {
      const part = list.dataset.part, own = problems.filter((p) => p.part === part);
      list.replaceChildren(...own.map((p) => {
        const item = document.createElement("li"), link = document.createElement("a");
        link.href = "#part-" + part;
        link.dataset.line = p.line;
        link.dataset.column = p.column;
        link.textContent = (p.line ? "Line " + p.line + ", column " + p.column + ": " : "") + p.message;
        item.append(link);
        return item;
      }));
      const field = fields[part];
      if (field && own.length) field.setAttribute("aria-invalid", "true");
      else if (field) field.removeAttribute("aria-invalid");
    }
  };

  // show loads the preview into a new frame, so that it leaves nothing in the history, and
  // replaces the old one once it is there.
  const show = () => {
    const old = frames.querySelectorAll("iframe"), frame = old[0].cloneNode(false);
    for (const one of old) one.removeAttribute("name");
    frame.name = "preview";
    frame.addEventListener("load", () => {
      if (frame.name) frames.setAttribute("aria-busy", "false");
      if (frame.isConnected) for (const one of frames.querySelectorAll("iframe")) if (one !== frame && !one.name) one.remove();
    });
    frames.append(frame);
    form.requestSubmit(button);
  };

  const check = async () => {
    const mine = ++round;
    const failed = () => { if (mine === round) frames.setAttribute("aria-busy", "false"); };
    const body = new URLSearchParams();
    for (const [name, value] of new FormData(form)) body.append(name, value);
    let answer;
    try {
      const r = await fetch(form.dataset.check, { method: "POST", body, redirect: "error" });
      if (!r.ok) return failed();
      answer = await r.json();
    } catch {
      if (mine === round) timer = setTimeout(check, 2000); // the server restarts, or the network changed
      return failed();
    }
    if (mine !== round) return;
    mark(answer.problems);
    if (answer.problems.length) return frames.setAttribute("aria-busy", "false");
    document.getElementById("preview-subject").textContent = answer.subject;
    show();
  };
  const soon = () => {
    clearTimeout(timer);
    frames.setAttribute("aria-busy", "true");
    timer = setTimeout(check, 250);
  };

  form.addEventListener("input", soon);
  form.addEventListener("focusin", (e) => { if (Object.values(fields).includes(e.target)) last = e.target; });
  form.addEventListener("click", (e) => {
    const link = e.target.closest(".problems a");
    if (!link || !link.dataset.line || link.dataset.line === "0") return;
    e.preventDefault();
    place(fields[link.closest(".problems").dataset.part], Number(link.dataset.line), Number(link.dataset.column));
  });
  for (const code of form.querySelectorAll("code[data-insert]")) {
    const insert = document.createElement("button");
    insert.type = "button";
    insert.textContent = code.textContent;
    insert.title = "Insert at the cursor";
    insert.addEventListener("click", () => {
      last.focus();
      last.setRangeText(insert.textContent, last.selectionStart, last.selectionEnd, "end");
      soon();
    });
    code.replaceWith(insert);
  }
  if (!form.querySelector(".problems li")) check();
})();
