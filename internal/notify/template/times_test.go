package template

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
)

func TestRequestReceivedIsATime(t *testing.T) {
	t.Parallel()
	v := Values{Text: "x", RequestReceived: time.Date(2026, time.November, 15, 14, 3, 7, 250, time.UTC)}
	for source, want := range map[string]string{
		`{{.RequestReceived.Year}}`:                                                "2026",
		`{{.RequestReceived.Month}} {{.RequestReceived.Day}}`:                      "November 15",
		`{{.RequestReceived.Weekday}}`:                                             "Sunday",
		`{{.RequestReceived.Format "2006-01-02 15:04"}}`:                           "2026-11-15 14:03",
		`{{$.RequestReceived.UTC.Format "Jan 2"}}`:                                 "Nov 15",
		`{{"15:04" | .RequestReceived.Format}}`:                                    "14:03",
		`{{with .RequestReceived}}{{.Hour}}:{{.Minute}} {{.Format "2006"}}{{end}}`: "14:3 2026",
		`{{(.RequestReceived.UTC).Unix}}`:                                          "1794751387",
		`{{if gt .RequestReceived.Year 2025}}new{{end}}`:                           "new",
		`{{if .RequestReceived.IsZero}}none{{else}}some{{end}}`:                    "some",
		`{{print .RequestReceived.Year "!"}}`:                                      "2026!",
	} {
		got := render(t, notify.Template{Text: source, HTML: "<p>" + source + "</p>"}, Values{Text: v.Text, HTML: "<b>x</b>",
			RequestReceived: v.RequestReceived})
		if got.Text != want || !strings.Contains(got.HTML, "<p>"+want+"</p>") {
			t.Errorf("%s: text %q, HTML %q, want %q", source, got.Text, got.HTML, want)
		}
	}
	for source, want := range map[string]string{
		`{{.RequestReceived.Format}}`:              "Format needs a layout",
		`{{.RequestReceived.Format "a" "b"}}`:      "at most 1",
		`{{.RequestReceived.Format 3}}`:            "layout as a string",
		`{{.RequestReceived.GobEncode}}`:           "has no GobEncode",
		`{{.RequestReceived.Year.Month}}`:          "no fields",
		`{{.Subject.Format "2006"}}`:               "not a time",
		`{{.Subject.Year}}`:                        "has no fields",
		`{{lt .RequestReceived .RequestReceived}}`: "compares",
	} {
		if err := Check(notify.Template{Text: source}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// A mark replaces the link in a shared body, unless the link is part of another
// value.
func TestUnsubscribeMark(t *testing.T) {
	t.Parallel()
	v := Values{Text: "x", HTML: "<b>x</b>", UnsubscribeURL: notify.UnsubscribeMark}
	body := render(t, Default(), v)
	if strings.Count(body.Text, notify.UnsubscribeMark) != 1 || strings.Count(body.HTML, notify.UnsubscribeMark) != 1 {
		t.Errorf("text %q, HTML %q: want the mark once in each", body.Text, body.HTML)
	}
	c, err := Compile(notify.Template{HTML: `{{.HTML}}<a href="https://x.example/?to={{.UnsubscribeURL}}">y</a>`})
	if err != nil {
		t.Fatal(err)
	}
	if c.Personal() {
		t.Error("personal before anything was rendered")
	}
	if _, err := c.Render(v); !errors.Is(err, ErrPersonal) {
		t.Errorf("got %v, want ErrPersonal", err)
	}
	if !c.Personal() {
		t.Error("not personal although a mark cannot stand in")
	}
	v.UnsubscribeURL = "https://n.example/u/1"
	if body, err := c.Render(v); err != nil || !strings.Contains(body.HTML, "to=https%3A%2F%2Fn.example%2Fu%2F1") {
		t.Errorf("body is %+v, %v, want the escaped unsubscribe URL", body, err)
	}
}
