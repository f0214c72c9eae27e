package mailbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/channeltest"
	"ingot/internal/notify/mail/compose"
)

func open(t testing.TB, change func(*Options)) *Mailbox {
	t.Helper()
	o := Options{Dir: t.TempDir(), Identity: compose.Identity{From: "Ingot <no-reply@ingot.example>"}}
	if change != nil {
		change(&o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func send(t testing.TB, m *Mailbox, to string, b notify.Body) {
	t.Helper()
	m.Deliver(context.Background(), []notify.Outgoing{{ID: "id-" + strings.NewReplacer("@", "-", ".", "-").Replace(to),
		To: to, Body: &b, ClientID: "c", Received: time.Now()}}, func(_ int, r notify.Result) {
		if r.Verdict != notify.Accepted {
			t.Errorf("result is %+v, want accepted", r)
		}
	})
}

func TestContract(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T, _ channeltest.Terms) channeltest.Setup {
		m := open(t, nil)
		return channeltest.Setup{Channel: m, Received: func() map[string]int {
			all, _ := m.List(Filter{}, 0)
			ids := map[string]int{}
			for _, e := range all {
				ids[e.ID]++
			}
			return ids
		}}
	})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	m := open(t, func(o *Options) { o.Messages = 10 })
	for i := range 35 {
		send(t, m, fmt.Sprintf("user%d@example.com", i), notify.Body{Subject: "s", Text: "t"})
	}
	all, total := m.List(Filter{}, 0)
	if total != 10 || all[0].To != "user34@example.com" || all[9].To != "user25@example.com" {
		t.Errorf("%d messages: %+v, want 10, user34 to user25", total, all)
	}
	if files, _ := os.ReadDir(m.dir); len(files) != 10 {
		t.Errorf("%d files", len(files))
	}

	small := open(t, func(o *Options) { o.Bytes = 10_000 })
	for range 20 {
		send(t, small, "a@example.com", notify.Body{Subject: "s", Text: strings.Repeat("x", 2000)})
	}
	if _, n := small.List(Filter{}, 0); n < 2 || n > 5 || small.size > 10_000 {
		t.Errorf("%d messages of %d bytes", n, small.size)
	}
	send(t, small, "big@example.com", notify.Body{Text: strings.Repeat("x", 50_000)})
	if all, n := small.List(Filter{}, 0); n != 1 || all[0].To != "big@example.com" {
		t.Errorf("messages are %+v, want the one to big@example.com", all)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(o *Options) { o.Dir = dir }
	m := open(t, at)
	for i := range 5 {
		send(t, m, fmt.Sprintf("user%d@example.com", i), notify.Body{Subject: "Grüße", Text: "t"})
	}
	before, _ := m.List(Filter{}, 0)
	// Files that a crash, or another program, left behind.
	for name, content := range map[string]string{".new-123": "half", "0000000000000009.mail": "broken",
		"notes.txt": "mine", "0000000000000003.mail": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := open(t, at)
	after, n := again.List(Filter{}, 0)
	if n != 4 || after[0] != before[0] || after[0].Subject != "Grüße" {
		t.Errorf("%+v\nwas %+v", after, before)
	}
	if _, err := os.Stat(filepath.Join(dir, ".new-123")); err == nil {
		t.Error("the half file is still there")
	}
	send(t, again, "new@example.com", notify.Body{Text: "t"})
	if newest, _ := again.List(Filter{}, 1); newest[0].Number != 10 {
		t.Errorf("a number was given twice: %+v", newest)
	}
	again.Clear()
	if files, _ := filepath.Glob(filepath.Join(dir, "*.mail")); len(files) > 2 {
		t.Errorf("left after Clear: %q", files)
	}
}

func TestDiskFailure(t *testing.T) {
	t.Parallel()
	m := open(t, nil)
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	m.Deliver(t.Context(), []notify.Outgoing{{ID: "a", To: "a@b.example", Body: &notify.Body{}}},
		func(_ int, r notify.Result) {
			if r.Verdict != notify.Temporary || strings.Contains(r.Reason, m.dir) {
				t.Errorf("result is %+v, want temporary without the directory in the reason", r)
			}
		})
}

func mux(m *Mailbox, access web.Access) http.Handler {
	x := web.NewMux(web.FormatNotifications, slog.New(slog.DiscardHandler), nil)
	m.Mount(x.Group("mailbox", web.FormatNotifications, nil), "/mailbox", access)
	return x
}

func call(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>`

func TestPages(t *testing.T) {
	t.Parallel()
	m := open(t, nil)
	h := mux(m, web.Public("a test"))
	if page := text(t, call(h, http.MethodGet, "/mailbox")); !strings.Contains(page, "Nothing here yet") {
		t.Errorf("page is %s, want an empty mailbox", page)
	}
	send(t, m, "ann@example.com", notify.Body{Subject: "Hello " + hostile, Text: "The text " + hostile,
		HTML: "<p>The HTML</p>" + hostile})
	send(t, m, "bob@example.com", notify.Body{Subject: "Second", Text: "only text"})

	r := call(h, http.MethodGet, "/mailbox")
	list := text(t, r)
	if strings.Contains(list, "<script>") || strings.Contains(list, "<img src=x") ||
		!strings.Contains(list, "ann@example.com") || strings.Index(list, "bob@") > strings.Index(list, "ann@") {
		t.Errorf("page is %s, want bob before ann and no markup of the message", list)
	}
	// The style sheet is the one whose hash the policy allows.
	css := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(list)
	sum := sha256.Sum256([]byte(css[1]))
	if policy := r.Header.Get("Content-Security-Policy"); !strings.Contains(policy,
		base64.StdEncoding.EncodeToString(sum[:])) || !strings.Contains(policy, "default-src 'none'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("policy is %q, want the hash of the style sheet and nothing unsafe", policy)
	}
	if page := text(t, call(h, http.MethodGet, "/mailbox?to=BOB")); strings.Contains(page, "ann@") ||
		!strings.Contains(page, "Second") || !strings.Contains(page, "Show all 2") {
		t.Errorf("page is %s, want only the message to bob and a link to all 2", page)
	}
	r = call(h, http.MethodGet, "/mailbox?to=%3Cscript%3E&live=1")
	if page := text(t, r); strings.Contains(page, "<script>") || r.Header.Get("Refresh") != "3" {
		t.Errorf("page is %s, want it to refresh without a script", page)
	}

	view := text(t, call(h, http.MethodGet, "/mailbox/view/1"))
	for _, want := range []string{"The text &#34;&gt;&lt;script&gt;",
		`sandbox="allow-popups allow-popups-to-escape-sandbox"`, `src="/mailbox/view/1/html"`, "X-CF-Notification-ID",
		"id-ann-example-com", "Message-ID"} {
		if !strings.Contains(view, want) {
			t.Errorf("%q is not in\n%s", want, view)
		}
	}
	if strings.Contains(view, "<script>") || strings.Contains(view, "allow-scripts") ||
		strings.Contains(view, "allow-same-origin") {
		t.Errorf("page is %s, want no script and a closed sandbox", view)
	}
	if page := text(t, call(h, http.MethodGet, "/mailbox/view/2")); strings.Contains(page, "<iframe") {
		t.Error("a message without HTML has a frame for it")
	}

	r = call(h, http.MethodGet, "/mailbox/view/1/html")
	if page := text(t, r); !strings.Contains(page, "<p>The HTML</p>") {
		t.Errorf("page is %s, want the HTML of the message", page)
	}
	policy := r.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "sandbox ") || !strings.Contains(policy, "default-src 'none'") ||
		strings.Contains(policy, "script") || strings.Contains(policy, "same-origin") ||
		r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("header is %q, want a sandbox without scripts and nosniff", r.Header)
	}
	r = call(h, http.MethodGet, "/mailbox/view/1/source")
	if source := text(t, r); !strings.HasPrefix(source, "X-CF-Client-ID: c\r\n") ||
		r.Header.Get("Content-Disposition") != `attachment; filename="message-1.eml"` {
		t.Errorf("header is %q, want message-1.eml as attachment of client c: %s", r.Header, source)
	}
	for _, path := range []string{"/mailbox/view/99", "/mailbox/view/x", "/mailbox/view/-1", "/mailbox/view/99/html",
		"/mailbox/view/..%2f1", "/mailbox/messages/99"} {
		if r := call(h, http.MethodGet, path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s answers %d, want %d", path, r.StatusCode, http.StatusNotFound)
		}
	}
}

func TestClear(t *testing.T) {
	t.Parallel()
	m := open(t, nil)
	h := mux(m, web.Public("a test"))
	send(t, m, "ann@example.com", notify.Body{Text: "t"})
	if r := call(h, http.MethodPost, "/mailbox/clear", "Sec-Fetch-Site", "cross-site", "Origin",
		"https://evil.example"); r.StatusCode != http.StatusForbidden {
		t.Errorf("another site may: %d", r.StatusCode)
	}
	if r := call(h, http.MethodDelete, "/mailbox/messages", "Sec-Fetch-Site",
		"cross-site"); r.StatusCode != http.StatusForbidden {
		t.Errorf("another site may: %d", r.StatusCode)
	}
	if _, n := m.List(Filter{}, 0); n != 1 {
		t.Error("it was emptied")
	}
	if r := call(h, http.MethodPost, "/mailbox/clear", "Sec-Fetch-Site",
		"same-origin"); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/mailbox" {
		t.Errorf("answer is %d %q, want 303 to /mailbox", r.StatusCode, r.Header)
	}
	if _, n := m.List(Filter{}, 0); n != 0 {
		t.Error("it was not emptied")
	}
	send(t, m, "ann@example.com", notify.Body{Text: "t"})
	if r := call(h, http.MethodDelete, "/mailbox/messages"); r.StatusCode != http.StatusNoContent {
		t.Errorf("status is %d, want %d", r.StatusCode, http.StatusNoContent)
	}
	if _, n := m.List(Filter{}, 0); n != 0 {
		t.Error("it was not emptied")
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	m := open(t, nil)
	h := mux(m, web.Public("a test"))
	send(t, m, "ann@example.com", notify.Body{Subject: "Grüße 🎉", Text: "Text\n", HTML: "<p>HTML</p>"})
	send(t, m, "bob@example.com", notify.Body{Text: "t"})
	var list struct {
		Total    int
		Messages []Entry
	}
	if err := json.Unmarshal([]byte(text(t, call(h, http.MethodGet, "/mailbox/messages?to=ann@example.com"))),
		&list); err != nil || list.Total != 1 || list.Messages[0].Subject != "Grüße 🎉" {
		t.Errorf("list is %+v, %v, want the message to ann", list, err)
	}
	var one struct {
		Entry
		Headers    []Header
		Text, HTML string
	}
	if err := json.Unmarshal([]byte(text(t, call(h, http.MethodGet, fmt.Sprintf("/mailbox/messages/%d",
		list.Messages[0].Number)))), &one); err != nil || strings.TrimSpace(one.Text) != "Text" ||
		one.HTML != "<p>HTML</p>" || one.ID != "id-ann-example-com" {
		t.Errorf("message is %+v, %v, want text, HTML and id of the one to ann", one, err)
	}
	found := false
	for _, h := range one.Headers {
		found = found || h == Header{"Subject", "Grüße 🎉"}
	}
	if !found {
		t.Errorf("headers are %+v, want the decoded subject", one.Headers)
	}
	if got := text(t, call(h, http.MethodGet, "/mailbox/messages?to=nobody")); !strings.Contains(got, `"messages":[]`) {
		t.Errorf("answer is %s, want no messages", got)
	}
	if r := call(h, http.MethodGet, "/mailbox/messages?limit=x"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("status is %d, want %d", r.StatusCode, http.StatusBadRequest)
	}
	if r := call(mux(m, web.Scope("x")), http.MethodGet, "/mailbox/messages"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %d", r.StatusCode)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(
		[]byte("Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: text/html\r\n\r\n<p>\r\n--a--\r\n"))
	f.Add([]byte("Subject: =?utf-8?b?eA==?=\r\n folded\r\n\r\nbody"))
	f.Add([]byte(" \r\n\r\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		c := parse(source)
		var page bytes.Buffer
		if err := pages().ExecuteTemplate(&page, "view", map[string]any{
			"Prefix": "", "Root": "/", "Entry": Entry{}, "Headers": c.headers, "Text": c.text, "HasText": c.hasText,
			"HasHTML": c.hasHTML, "Sandbox": sandbox,
		}); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkMailbox(b *testing.B) {
	m := open(b, nil)
	o := []notify.Outgoing{{ID: "a", To: "a@b.example",
		Body: &notify.Body{Subject: "s", Text: strings.Repeat("line of text\n", 100)}}}
	for b.Loop() {
		m.Deliver(b.Context(), o, func(int, notify.Result) {})
	}
}

// Attachments are listed, and are not taken for the text.
func TestAttachments(t *testing.T) {
	t.Parallel()
	c, err := compose.New(compose.Identity{From: "a@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Message(&notify.Outgoing{ID: "1", To: "b@example.com",
		Body: &notify.Body{Subject: "s", HTML: "<p>html</p>"},
		Attached: &notify.Attached{Files: []notify.AttachedFile{
			{Attachment: notify.Attachment{Name: "Büro.txt", Type: "text/plain"}, Content: []byte("attached")},
			{Attachment: notify.Attachment{Name: "l.png", Type: "image/png", Inline: "logo"}, Content: make([]byte, 70)},
		}}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := parse(bytes.Join(m.Parts(), nil))
	if got.hasText || strings.TrimSpace(got.html) != "<p>html</p>" {
		t.Errorf("%+v", got)
	}
	want := []File{{"l.png", "image/png", 70}, {"Büro.txt", "text/plain", 8}}
	if !slices.Equal(got.files, want) {
		t.Errorf("files are %+v, want %+v", got.files, want)
	}
}
