package cli

import (
	"time"

	"ingot/internal/cli/term"
)

// logLine is a log line in JSON output, one object per line.
type logLine struct {
	Time     time.Time `json:"time"`
	Source   string    `json:"source"`
	Instance string    `json:"instance"`
	Stream   string    `json:"stream"`
	Text     string    `json:"text"`
}

// prefix returns the part of a line before its text, in cf's format.
func (l logLine) prefix() string { return l.moment() + " " + l.from() + " " + l.Stream }

func (l logLine) moment() string { return l.Time.Local().Format("2006-01-02T15:04:05.00-0700") }

func (l logLine) from() string { return "[" + l.Source + "/" + l.Instance + "]" }

// painted returns the line coloured by source; standard error is red.
func (l logLine) painted(p *term.Printer) string {
	text := l.Text
	if l.Stream == "ERR" {
		text = p.Bad(text)
	}
	return p.Dim(l.moment()) + " " + p.Source(l.Source, l.from()) + " " + p.Dim(l.Stream) + " " + text
}
