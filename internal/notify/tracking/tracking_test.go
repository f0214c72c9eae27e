package tracking_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/tracking"
)

const (
	base = "https://notifications.example.com"
	both = notify.TrackOpens | notify.TrackClicks
)

func marker(t *testing.T, with byte) *tracking.Marker {
	t.Helper()
	m, err := tracking.NewMarker(bytes.Repeat([]byte{with}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var marks = regexp.MustCompile(`/(links|images)/([A-Za-z0-9_-]+)`)

// What is a link to mark gets a mark that leads to the same address, and nothing else changes.
func TestHTML(t *testing.T) {
	t.Parallel()
	m := marker(t, 1)
	for name, c := range map[string]struct {
		in   string
		to   string // the target of the link, if it is marked
		with notify.Tracking
	}{
		"link":            {in: `<p><a href="https://a.example/x?y=1&amp;z=2#f">A</a>`, to: "https://a.example/x?y=1&z=2#f"},
		"upper case":      {in: `<A HREF='HTTP://a.example/'>A</A>`, to: "HTTP://a.example/"},
		"without quotes":  {in: `<a href=http://a.example>A</a>`, to: "http://a.example"},
		"in a map":        {in: `<map><area href="https://a.example/" shape=default></map>`, to: "https://a.example/"},
		"with spaces":     {in: `<a href=" https://a.example/ ">A</a>`, to: "https://a.example/"},
		"only opens":      {in: `<a href="https://a.example/">A</a>`, with: notify.TrackOpens},
		"no scheme":       {in: `<a href="/x">A</a><a href="//a.example/">B</a><a href="#x">C</a>`},
		"other schemes":   {in: `<a href="mailto:a@b.example">A</a><a href="tel:1">B</a><a href="javascript:x">C</a>`},
		"no host":         {in: `<a href="https:///x">A</a>`},
		"control":         {in: "<a href=\"https://a.example/\x01\">A</a>"},
		"very long":       {in: `<a href="https://a.example/` + strings.Repeat("x", 2000) + `">A</a>`},
		"ours":            {in: `<a href="` + base + `/unsubscribe/x">A</a><a href="` + base + `">B</a>`},
		"the mark":        {in: `<a href="` + notify.UnsubscribeMark + `">A</a>`},
		"preferences":     {in: `<a href="https://a.example/Unsubscribe?x">A</a><a href="https://a.example/preferences">B</a>`},
		"not a link":      {in: `<link href="https://a.example/x.css"><img src="https://a.example/x.png"><b title="x<y">`},
		"in a style":      {in: `<style>a[href="https://a.example/"]{}</style>`},
		"in a comment":    {in: `<!-- <a href="https://a.example/">A</a> -->`},
		"in an attribute": {in: `<p title='<a href="https://a.example/">'>x</p>`},
		"broken":          {in: `<p <a>&amp;&x <br/><a`},
	} {
		with := c.with
		if with == 0 {
			with = notify.TrackClicks
		}
		got := m.HTML(c.in, base+"/", tracking.Mark{Number: 7, TemplateID: "t", Version: 3}, with)
		image := ""
		if with.Has(notify.TrackOpens) {
			at := strings.LastIndex(got, "<img ")
			got, image = got[:at], got[at:]
		}
		found := marks.FindStringSubmatch(got)
		if c.to == "" {
			if got != c.in {
				t.Errorf("%s: %q became %q", name, c.in, got)
			}
		} else if len(found) == 0 {
			t.Errorf("%s: nothing is marked in %q", name, got)
		} else if k, err := m.Open(found[2]); err != nil || k != (tracking.Mark{Number: 7, Type: notify.Clicked,
			TemplateID: "t", Version: 3, Target: c.to}) {
			t.Errorf("%s: the mark is %+v, %v, want %q", name, k, err, c.to)
		}
		if image != "" {
			k, err := m.Open(marks.FindStringSubmatch(image)[2])
			if err != nil || k != (tracking.Mark{Number: 7, Type: notify.Opened, TemplateID: "t", Version: 3}) {
				t.Errorf("%s: the image %q is %+v, %v", name, image, k, err)
			}
		}
	}
	again := func() string {
		return m.HTML(`<html><body><a href="http://a.example">A</a></body></html>`, base, tracking.Mark{Number: 1}, both)
	}
	if got := again(); !strings.HasSuffix(got, `alt=""></body></html>`) || got != again() {
		t.Errorf("the image is not at the end of the body, or differs: %q", got)
	}
	many := m.HTML(strings.Repeat(`<a href="http://a.example">A</a>`, 600), base, tracking.Mark{}, notify.TrackClicks)
	if n := strings.Count(many, tracking.LinkPath); n != 500 {
		t.Errorf("%d links are marked, want 500", n)
	}
}

// Marks that this service did not make lead nowhere.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	m := marker(t, 1)
	good := m.Seal(tracking.Mark{Number: 1, Type: notify.Clicked, Target: "https://a.example/"})
	if _, err := m.Open(good); err != nil {
		t.Fatal(err)
	}
	changed := []byte(good)
	changed[20] ^= 1
	for name, text := range map[string]string{
		"empty": "", "short": good[:10], "cut": good[:len(good)-2], "changed": string(changed),
		"an address":      "https://evil.example",
		"another service": marker(t, 2).Seal(tracking.Mark{Number: 1, Type: notify.Clicked, Target: "https://a.example/"}),
		"with a newline":  good + "\n",
		"a script":        m.Seal(tracking.Mark{Number: 1, Type: notify.Clicked, Target: "javascript:alert(1)"}),
		"a file":          m.Seal(tracking.Mark{Number: 1, Type: notify.Clicked, Target: "file:///etc/passwd"}),
		"no target":       m.Seal(tracking.Mark{Number: 1, Type: notify.Clicked}),
		"an image's":      m.Seal(tracking.Mark{Number: 1, Type: notify.Opened, Target: "https://a.example/"}),
		"a header":        m.Seal(tracking.Mark{Number: 1, Type: notify.Clicked, Target: "https://a.example/\r\nX: y"}),
		"a further part":  m.Seal(tracking.Mark{Number: 1, Type: notify.Clicked, Target: "https://a.example/\x00x"}),
		"unknown type":    m.Seal(tracking.Mark{Number: 1, Type: 3, Target: "https://a.example/"}),
	} {
		if k, err := m.Open(text); !errors.Is(err, tracking.ErrMark) {
			t.Errorf("%s: got %+v, %v", name, k, err)
		}
	}
	if _, err := tracking.NewMarker(nil); err == nil {
		t.Error("a short key is accepted")
	}
}

func FuzzHTML(f *testing.F) {
	m, err := tracking.NewMarker(make([]byte, 32))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "<a href=x>", `<a href="https://a.example">`, "</body><a", "<script><a href=http://x>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if k := m.HTML(in, base, tracking.Mark{}, notify.TrackOpens); len(k) < len(in) {
			t.Errorf("%q became %q", in, k)
		}
		for _, found := range marks.FindAllStringSubmatch(m.HTML(in, base, tracking.Mark{Number: 1}, both), -1) {
			if strings.Contains(in, found[2]) {
				continue
			}
			if _, err := m.Open(found[2]); err != nil {
				t.Errorf("%q has a mark that is not valid", in)
			}
		}
	})
}
