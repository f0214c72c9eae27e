package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Progress is a line at the bottom of a terminal that shows what is going on. It
// is redrawn in place, is never wider than the screen and disappears when closed.
// Nothing is drawn when the width is 0, as it is without a terminal.
type Progress struct {
	w     io.Writer
	width func() int

	mu          sync.Mutex
	label       string
	done, total int64
	began       time.Time
	drawn       bool
	stop        chan struct{}
	stopped     chan struct{}

	silent time.Time // since when nothing was written
}

// redraw is the interval at which the line is redrawn.
const redraw = 100 * time.Millisecond

// NewProgress returns a progress line. width is called before each drawing,
// because the size of a terminal can change; nothing is drawn if width is nil or
// returns less than ten.
func NewProgress(w io.Writer, width func() int) *Progress {
	p := &Progress{w: w, width: width}
	if width == nil {
		return p
	}
	p.stop, p.stopped = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.stopped)
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.mu.Lock()
				p.draw()
				p.mu.Unlock()
			case <-p.stop:
				return
			}
		}
	}()
	return p
}

// NewProgressLines returns progress for outputs that are not terminals: whenever a step has
// been silent for a while, it writes a line about it.
func NewProgressLines(line func(string), silence time.Duration) *Progress {
	p := &Progress{stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(p.stopped)
		tick := time.NewTicker(silence / 10)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				if text := p.still(now, silence); text != "" {
					line(text)
				}
			case <-p.stop:
				return
			}
		}
	}()
	return p
}

// still returns a line about the current step if it is due.
func (p *Progress) still(now time.Time, silence time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.label == "" || now.Sub(p.silent) < silence {
		return ""
	}
	p.silent = now
	return fmt.Sprintf("%s... (%d s)", p.label, int(now.Sub(p.began).Seconds()))
}

// Step starts a new step. A total of 0 means that it is not known.
func (p *Progress) Step(label string, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.label, p.done, p.total, p.began = label, 0, total, time.Now()
	p.silent = p.began
	p.draw()
}

// Add adds n to the amount done.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
}

// Close removes the line.
func (p *Progress) Close() {
	if p.stop != nil {
		close(p.stop)
		<-p.stopped
		p.stop = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.label = ""
	p.erase()
}

// above calls write while the progress line is hidden.
func (p *Progress) above(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	write()
	p.silent = time.Now()
	p.draw()
}

func (p *Progress) erase() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[2K")
		p.drawn = false
	}
}

func (p *Progress) draw() {
	if p.width == nil || p.label == "" {
		return
	}
	width := p.width()
	if width < 10 {
		p.erase()
		return
	}
	// Leave the last column empty: some terminals wrap when it is written.
	fmt.Fprint(p.w, "\r\x1b[2K"+fit(p.text(width-1), width-1))
	p.drawn = true
}

var spinner = []string{"|", "/", "-", "\\"}

// text returns the line: the label, and a bar if there is room for one.
func (p *Progress) text(width int) string {
	seconds := time.Since(p.began)
	if p.total <= 0 {
		turn := spinner[int(seconds/redraw)%len(spinner)]
		return fmt.Sprintf("%s %s %ds", turn, p.label, int(seconds.Seconds()))
	}
	part := min(1, float64(p.done)/float64(p.total))
	figures := fmt.Sprintf(" %3.0f%% of %s", part*100, Size(p.total))
	room := width - utf8.RuneCountInString(p.label) - utf8.RuneCountInString(figures) - 3
	if room < 6 {
		return p.label + figures
	}
	room = min(room, 40)
	full := int(part * float64(room))
	return p.label + " [" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "]" + figures
}

// fit truncates a line to a width.
func fit(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	if width < 3 {
		return string(runes[:max(0, width)])
	}
	return string(runes[:width-2]) + ".."
}

// Size formats a number of bytes as Cloud Foundry does.
func Size(n int64) string {
	units := []string{"B", "K", "M", "G", "T"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if f == float64(int64(f)) {
		return fmt.Sprintf("%d%s", int64(f), units[i])
	}
	return fmt.Sprintf("%.1f%s", f, units[i])
}
