package core

import (
	"time"

	"ingot/internal/cli/term"
)

// LogLine is a log line in JSON output, one object per line.
type LogLine struct {
	Time     time.Time `json:"time"`
	Source   string    `json:"source"`
	Instance string    `json:"instance"`
	Stream   string    `json:"stream"`
	Text     string    `json:"text"`
}

// prefix returns the part of a line before its text, in cf's format.
func (l LogLine) prefix() string { return l.moment() + " " + l.from() + " " + l.Stream }

func (l LogLine) moment() string { return l.Time.Local().Format("2006-01-02T15:04:05.00-0700") }

func (l LogLine) from() string { return "[" + l.Source + "/" + l.Instance + "]" }

// Painted returns the line coloured by source; standard error is red.
func (l LogLine) Painted(p *term.Printer) string {
	text := l.Text
	if l.Stream == "ERR" {
		text = p.Bad(text)
	}
	return p.Dim(l.moment()) + " " + p.Source(l.Source, l.from()) + " " + p.Dim(l.Stream) + " " + text
}
