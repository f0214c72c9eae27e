package term

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/fatih/color"
)

// Printer writes lines of text. It is safe for concurrent use.
type Printer struct {
	w io.Writer
	// colors enables colours.
	colors bool

	mu       sync.Mutex
	progress *Progress // hidden while lines are written
}

// NewPrinter returns a printer that writes to w.
func NewPrinter(w io.Writer, colors bool) *Printer { return &Printer{w: w, colors: colors} }

// Println writes one line, above the progress line if there is one.
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

// Write writes b unchanged.
func (p *Printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(b)
}

// WithProgress makes the printer write lines above a progress line.
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
	c.EnableColor() // the caller of NewPrinter decided about colours
	return c.Sprint(s)
}

// Bold highlights a name.
func (p *Printer) Bold(s string) string { return p.paint(s, color.FgCyan, color.Bold) }

// Good highlights a success.
func (p *Printer) Good(s string) string { return p.paint(s, color.FgGreen, color.Bold) }

// Bad highlights a failure.
func (p *Printer) Bad(s string) string { return p.paint(s, color.FgRed, color.Bold) }

// Dim formats secondary text.
func (p *Printer) Dim(s string) string { return p.paint(s, color.Faint) }

// Warn highlights a warning.
func (p *Printer) Warn(s string) string { return p.paint(s, color.FgYellow) }

// Source colours text by the kind of a log line's source.
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

// State colours a state by its meaning.
func (p *Printer) State(s string) string {
	switch strings.ToLower(s) {
	case "running", "started", "staged", "ready", "succeeded", "yes", "delivered", "ok":
		return p.paint(s, color.FgGreen)
	case "crashed", "failed", "fail", "down", "missing", "undeliverable":
		return p.paint(s, color.FgRed)
	case "starting", "staging", "in progress", "queued", "pending", "warn":
		return p.paint(s, color.FgYellow)
	}
	return s
}
