package term

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/fatih/color"
)

// Printer writes lines for people. It may be used by several goroutines.
type Printer struct {
	w io.Writer
	// Colors says whether w shows them.
	colors bool

	mu       sync.Mutex
	progress *Progress // to be moved out of the way of lines
}

// NewPrinter returns a printer.
func NewPrinter(w io.Writer, colors bool) *Printer { return &Printer{w: w, colors: colors} }

// Println writes one line, above the progress line when there is one.
func (p *Printer) Println(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress != nil {
		p.progress.above(func() { fmt.Fprintln(p.w, line) })
		return
	}
	fmt.Fprintln(p.w, line)
}

// Printf writes a formatted line.
func (p *Printer) Printf(format string, args ...any) { p.Println(fmt.Sprintf(format, args...)) }

// Write writes as it is.
func (p *Printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(b)
}

// WithProgress makes lines go above a progress line on the same screen.
func (p *Printer) WithProgress(g *Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress = g
}

func (p *Printer) paint(s string, attributes ...color.Attribute) string {
	if !p.colors || s == "" {
		return s
	}
	c := color.New(attributes...)
	c.EnableColor() // whether to colour was decided by who made the printer
	return c.Sprint(s)
}

// Bold marks a name.
func (p *Printer) Bold(s string) string { return p.paint(s, color.FgCyan, color.Bold) }

// Good marks what went well.
func (p *Printer) Good(s string) string { return p.paint(s, color.FgGreen, color.Bold) }

// Bad marks what went wrong.
func (p *Printer) Bad(s string) string { return p.paint(s, color.FgRed, color.Bold) }

// Dim marks what is beside the point.
func (p *Printer) Dim(s string) string { return p.paint(s, color.Faint) }

// Warn marks what deserves a look.
func (p *Printer) Warn(s string) string { return p.paint(s, color.FgYellow) }

// Source paints the source of a log line by its kind: each kind has a colour.
func (p *Printer) Source(source, text string) string {
	kind, _, _ := strings.Cut(source, "/")
	switch {
	case kind == "APP" && strings.Contains(source, "/SIDECAR/"):
		return p.paint(text, color.FgMagenta)
	case kind == "APP" && strings.HasPrefix(source, "APP/TASK/"):
		return p.paint(text, color.FgHiGreen)
	case kind == "APP":
		return p.paint(text, color.FgGreen)
	case kind == "RTR":
		return p.paint(text, color.FgBlue)
	case kind == "STG":
		return p.paint(text, color.FgCyan)
	case kind == "SSH":
		return p.paint(text, color.FgHiBlue)
	}
	return p.paint(text, color.FgYellow) // the platform itself: API, CELL, LGR
}

// State paints a state by what it means.
func (p *Printer) State(s string) string {
	switch strings.ToLower(s) {
	case "running", "started", "staged", "ready", "succeeded", "yes", "delivered", "ok":
		return p.paint(s, color.FgGreen)
	case "crashed", "failed", "down", "missing", "undeliverable":
		return p.paint(s, color.FgRed)
	case "starting", "staging", "in progress", "queued", "pending":
		return p.paint(s, color.FgYellow)
	}
	return s
}
