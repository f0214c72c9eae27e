package compose

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"ingot/internal/notify"
)

// tree reads a message with another parser: its parts as one line each, indented, with their contents by name.
func tree(t *testing.T, m *Message) (lines []string, contents map[string][]byte) {
	t.Helper()
	var text bytes.Buffer
	for _, part := range m.Parts() {
		text.Write(part)
	}
	if text.Len() != m.Size() {
		t.Errorf("the size is %d, want %d", m.Size(), text.Len())
	}
	msg, err := mail.ReadMessage(&text)
	if err != nil {
		t.Fatal(err)
	}
	contents = map[string][]byte{}
	var walk func(kind string, body io.Reader, indent string)
	walk = func(kind string, body io.Reader, indent string) {
		media, params, err := mime.ParseMediaType(kind)
		if err != nil {
			t.Fatalf("%q: %v", kind, err)
		}
		if media == "multipart/related" {
			lines = append(lines, indent+media+" of "+params["type"])
		} else {
			lines = append(lines, indent+media)
		}
		r := multipart.NewReader(body, params["boundary"])
		for {
			p, err := r.NextPart()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			kind := p.Header.Get("Content-Type")
			if strings.HasPrefix(kind, "multipart/") {
				walk(kind, p, indent+" ")
				continue
			}
			var content io.Reader = p
			if p.Header.Get("Content-Transfer-Encoding") == "base64" {
				content = base64.NewDecoder(base64.StdEncoding, p)
			}
			all, err := io.ReadAll(content)
			if err != nil {
				t.Fatal(err)
			}
			line := indent + " " + kind
			name := kind
			if d := p.Header.Get("Content-Disposition"); d != "" {
				how, params, err := mime.ParseMediaType(d)
				if err != nil {
					t.Fatalf("%q: %v", d, err)
				}
				name = params["filename"]
				line += fmt.Sprintf(" %s %q", how, name)
			}
			if id := p.Header.Get("Content-Id"); id != "" {
				line += " " + id
			}
			lines = append(lines, line)
			contents[name] = all
		}
	}
	walk(msg.Header.Get("Content-Type"), msg.Body, "")
	return lines, contents
}

func attached(files ...notify.AttachedFile) *notify.Attached {
	a := &notify.Attached{}
	for _, f := range files {
		f.ID = fmt.Sprint(len(a.Files))
		a.Files = append(a.Files, f)
		a.Bytes += int64(len(f.Content))
	}
	return a
}

func file(name, media, inline string, content []byte) notify.AttachedFile {
	return notify.AttachedFile{Attachment: notify.Attachment{Name: name, Type: media, Inline: inline}, Content: content}
}

func TestAttached(t *testing.T) {
	t.Parallel()
	every := make([]byte, 3*256+1)
	for i := range every {
		every[i] = byte(i)
	}
	logo := file("logo.png", "image/png", "logo.1", every)
	report := file("Büro – Übersicht über alle Umsätze des dritten Quartals (endgültig).pdf", "application/pdf", "",
		bytes.Repeat([]byte("\r\n.\r\n--=_mixed_"), 100))
	list := file("list.csv", "text/csv", "", []byte("a,b\n"))
	both := notify.Body{Subject: "s", Text: "the text", HTML: `<img src="cid:logo.1">`}
	for name, c := range map[string]struct {
		body notify.Body
		of   *notify.Attached
		want []string
	}{
		"all": {both, attached(report, logo, list), []string{
			"multipart/mixed", " multipart/related of multipart/alternative", "  multipart/alternative",
			"   text/plain; charset=UTF-8", "   text/html; charset=UTF-8", `  image/png inline "logo.png" <logo.1>`,
			fmt.Sprintf(" application/pdf attachment %q", report.Name),
			` text/csv; charset=UTF-8 attachment "list.csv"`}},
		"an image": {both, attached(logo), []string{
			"multipart/related of multipart/alternative", " multipart/alternative", "  text/plain; charset=UTF-8",
			"  text/html; charset=UTF-8", ` image/png inline "logo.png" <logo.1>`}},
		"HTML alone": {notify.Body{HTML: both.HTML}, attached(logo, list), []string{
			"multipart/mixed", " multipart/related of text/html", "  text/html; charset=UTF-8",
			`  image/png inline "logo.png" <logo.1>`, ` text/csv; charset=UTF-8 attachment "list.csv"`}},
		"text alone": {notify.Body{Text: "t"}, attached(logo, list), []string{
			"multipart/mixed", " text/plain; charset=UTF-8", ` image/png inline "logo.png" <logo.1>`,
			` text/csv; charset=UTF-8 attachment "list.csv"`}},
		"nothing else": {notify.Body{}, attached(list), []string{
			"multipart/mixed", " text/plain; charset=UTF-8", ` text/csv; charset=UTF-8 attachment "list.csv"`}},
	} {
		o := outgoing()
		o.Body, o.Attached = &c.body, c.of
		m, err := composer(t).Message(o, now)
		if err != nil {
			t.Fatal(err)
		}
		checkForm(t, &Message{Header: m.Header, Body: append(bytes.Clone(m.Body), m.Tail...)})
		lines, contents := tree(t, m)
		if got, want := strings.Join(lines, "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
		for _, f := range c.of.Files {
			if !bytes.Equal(contents[f.Name], f.Content) {
				t.Errorf("%s: %s has %d bytes, want %d", name, f.Name, len(contents[f.Name]), len(f.Content))
			}
		}
		if got := strings.TrimSpace(string(contents["text/plain; charset=UTF-8"])); got != c.body.Text {
			t.Errorf("%s: the text is %q", name, got)
		}
		if got := strings.TrimSpace(string(contents["text/html; charset=UTF-8"])); got != c.body.HTML {
			t.Errorf("%s: the HTML is %q", name, got)
		}
	}
}

// What was not checked before cannot add headers or lines either.
func TestAttachedInjection(t *testing.T) {
	t.Parallel()
	for _, value := range append([]string{`a";x="b`, `a\`, "image/png\r\nBcc: e@e.org", "image/png; name=x", "IMAGE",
		"a/b/c", "multipart/mixed; boundary=x", "\u202egnp.exe", strings.Repeat("ä", 200)}, injections...) {
		o := outgoing()
		o.Attached = attached(file(value, value, value, []byte("content")), file("b.csv", "text/csv", "", []byte("b")))
		m, err := composer(t).Message(o, now)
		if err != nil {
			t.Fatal(err)
		}
		checkForm(t, &Message{Header: m.Header, Body: append(bytes.Clone(m.Body), m.Tail...)})
		lines, contents := tree(t, m)
		if len(contents) != 4 || string(contents["b.csv"]) != "b" {
			t.Errorf("%q: parts are %q", value, lines)
		}
		for _, line := range strings.Split(string(m.Tail), "\r\n") {
			name, _, _ := strings.Cut(line, ":")
			if strings.EqualFold(name, "Bcc") || strings.HasPrefix(name, "MAIL FROM") {
				t.Errorf("%q injects %q", value, line)
			}
		}
	}
}

// The messages of a send share their attachments.
func TestAttachedOnce(t *testing.T) {
	t.Parallel()
	c := composer(t)
	of := attached(file("a.csv", "text/csv", "", bytes.Repeat([]byte("x"), 1<<20)))
	message := func() *Message {
		o := outgoing()
		o.Attached = of
		m, err := c.Message(o, now)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := message()
	if second := message(); &first.Tail[0] != &second.Tail[0] {
		t.Error("the attachments were encoded twice")
	}
	if len(first.Body) > 2000 {
		t.Errorf("the body of each message has %d bytes", len(first.Body))
	}
}
