// Times are shown in the reader's zone, or as a distance if they are recent. Their title has
// the exact value.
"use strict";
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

// clock is the time of a log line. Logs have thousands of lines a second: the functions of
// Intl would take most of a page's time.
function clock(at) {
  const two = (n) => (n < 10 ? "0" : "") + n;
  return two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds()) + "." + String(at.getMilliseconds()).padStart(3, "0");
}

function showTimes(root) {
  for (const t of root.querySelectorAll("time")) {
    const at = new Date(t.dateTime);
    if (isNaN(at)) continue;
    const seconds = Math.round((at - Date.now()) / 1000);
    let text = exact.format(at);
    if (t.classList.contains("clock")) text = clock(at);
    else if (seconds > 60) text = exact.format(at);
    else if (seconds > -60) text = ago.format(Math.min(0, seconds), "second");
    else if (seconds > -3600) text = ago.format(Math.round(seconds / 60), "minute");
    else if (seconds > -86400) text = ago.format(Math.round(seconds / 3600), "hour");
    if (t.textContent !== text) t.textContent = text;
    t.title = exact.format(at) + " (" + t.dateTime + ")";
  }
}

showTimes(document);
setInterval(() => { if (!document.hidden) showTimes(document); }, 10000);
