package gitpush

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/pattern"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

const (
	// writeTime is how long the client may take to read a line.
	writeTime = 30 * time.Second
	// quietTime is the time without output after which an empty message keeps the connection
	// open.
	quietTime = 5 * time.Second
	// checkInterval is how often the state of a build or start is looked at. Lines may arrive for lagTime
	// after it, and for failedLag after a failure, whose reason they have.
	checkInterval = 30 * time.Millisecond
	lagTime       = 20 * time.Millisecond
	failedLag     = 150 * time.Millisecond
	// maxHeld is how many lines of instances are held that are not known yet.
	maxHeld     = 500
	longestLine = 4096
)

// terminal is what the user sees of a push.
type terminal struct {
	out    bands
	writer *http.ResponseController
	last   time.Time
}

func newTerminal(w http.ResponseWriter, bandsOff bool) *terminal {
	return &terminal{out: bands{w: w, off: bandsOff}, writer: http.NewResponseController(w)}
}

// send writes to a band at once. A client that is gone does not stop a deployment.
func (t *terminal) send(band byte, p []byte) {
	t.last = time.Now()
	_ = t.writer.SetWriteDeadline(t.last.Add(writeTime))
	if t.out.send(band, p) == nil {
		_ = t.writer.Flush()
	}
}

// say shows a line.
func (t *terminal) say(format string, args ...any) {
	t.send(bandProgress, []byte(oneLine(fmt.Sprintf(format, args...), longestLine)+"\n"))
}

// stay keeps the connection open.
func (t *terminal) stay() {
	if !t.out.off && time.Since(t.last) > quietTime {
		t.send(bandProgress, nil)
	}
}

// finish ends the response with a report.
func (t *terminal) finish(report []byte) {
	t.send(bandData, report)
	_ = t.out.end() // the client is gone
}

// colors are the sequences with which programs color their output.
var colors = pattern.OnUse("\x1b\\[[0-9;]*[A-Za-z]")

// watch shows the lines of an app's build and of its new instances.
type watch struct {
	*terminal
	batches chan []platform.LogLine
	cancel  context.CancelFunc
	done    <-chan error
	tail    logs.Tail
	// instances are those whose lines are shown.
	instances []string
	held      []platform.LogLine
}

// follow starts to read an app's log.
func (a *API) follow(ctx context.Context, t *terminal, app string) *watch {
	w := &watch{terminal: t, batches: make(chan []platform.LogLine)}
	ctx, w.cancel = context.WithCancel(ctx)
	tail, err := a.Logs.Tail(app, logs.Since(a.Platform.Now()))
	if err != nil {
		a.Log.WarnContext(ctx, "the log of an app cannot be shown to who pushes it", "error", err)
		return w
	}
	w.tail = tail
	w.done = background.Async("log of a git push", func() error {
		for {
			batch, err := tail.Next(ctx)
			if err != nil {
				return err
			}
			select {
			case w.batches <- batch.Entries:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return w
}

// close ends it.
func (w *watch) close() {
	w.cancel()
	if w.tail != nil {
		w.tail.Close()
		<-w.done
	}
}

// until shows lines until check returns true or an error.
func (w *watch) until(ctx context.Context, check func() (bool, error)) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case lines := <-w.batches:
			w.show(lines)
		case <-ticker.C:
			done, err := check()
			switch {
			case err != nil:
				w.rest(failedLag)
				return err
			case done:
				w.rest(lagTime)
				return nil
			}
			w.stay()
		}
	}
}

// rest shows the lines that are late, until none comes for a while.
func (w *watch) rest(lag time.Duration) {
	w.show(nil)
	for {
		select {
		case lines := <-w.batches:
			w.show(lines)
		case <-time.After(lag):
			return
		}
	}
}

// know adds an instance whose lines are shown.
func (w *watch) know(instance string) {
	if !slices.Contains(w.instances, instance) {
		w.instances = append(w.instances, instance)
		held := w.held
		w.held = nil
		w.show(held)
	}
}

func (w *watch) show(lines []platform.LogLine) {
	for _, line := range lines {
		text := colors().ReplaceAllString(string(line.Text), "")
		switch {
		case strings.HasPrefix(line.Source, "STG"):
			w.say("%s", text)
		case !strings.HasPrefix(line.Source, "APP/PROC/"):
		case slices.Contains(w.instances, line.Stream):
			w.say("%s/%s: %s", line.Source, line.Instance, text)
		case len(w.held) < maxHeld:
			w.held = append(w.held, line)
		}
	}
}
