// Credential-watcher is a sidecar that watches the files of the app's service bindings.
// When credentials are rotated it writes a configuration file from a template, and tells
// the app. README.md lists the settings.
//
//	credential-watcher        watches until it is stopped
//	credential-watcher once   writes the configuration file and exits
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		w, err := configure(os.Getenv)
		if err != nil {
			return fmt.Errorf("credential-watcher: %w", err)
		}
		switch args := os.Args[1:]; {
		case len(args) == 0:
			return w.watch(ctx)
		case len(args) == 1 && args[0] == "once":
			snap, err := w.source.read()
			if err == nil {
				_, err = w.write(snap)
			}
			return err
		default:
			return fmt.Errorf("credential-watcher: unknown arguments %q: use none, or once", args)
		}
	})
}

// watcher writes a file when others change.
type watcher struct {
	source           source
	template, output string
	mode             os.FileMode
	interval, settle time.Duration
	notifier         notifier
	getenv           func(string) string

	// seen is called after each look at the files; for tests.
	seen func()
}

func configure(getenv func(string) string) (*watcher, error) {
	e := &sample.Env{Get: getenv}
	w := &watcher{
		source: source{file: e.Text("WATCH_FILE", getenv("VCAP_SERVICES_FILE_PATH")),
			root: e.Text("WATCH_ROOT", getenv("SERVICE_BINDING_ROOT"))},
		template: e.Text("WATCH_TEMPLATE", ""), output: e.Text("WATCH_OUTPUT", ""), getenv: getenv,
		interval: e.Duration("WATCH_INTERVAL", 2*time.Second, 10*time.Millisecond),
		settle:   e.Duration("WATCH_SETTLE", time.Second, 0),
		notifier: notifier{
			pidFile: e.Text("WATCH_PID_FILE", ""), process: e.Text("WATCH_PROCESS", ""), command: e.Text("WATCH_COMMAND", ""),
			url:     e.Text("WATCH_POST", ""),
			timeout: e.Duration("WATCH_TIMEOUT", 10*time.Second, time.Millisecond), proc: "/proc",
			instance: getenv(sample.InstanceVariable),
		},
		seen: func() {},
	}
	switch {
	case w.source.file == "" && w.source.root == "":
		e.Problem("VCAP_SERVICES_FILE_PATH and SERVICE_BINDING_ROOT are not set: the app gets its credentials as " +
			"variables, which cannot change. " +
			"Set `features: {file-based-vcap-services: true}` in the manifest, and push again")
	case w.source.file != "" && w.source.root != "":
		e.Problem("both a file and a folder are to be watched: set one of WATCH_FILE (or VCAP_SERVICES_FILE_PATH) and " +
			"WATCH_ROOT (or SERVICE_BINDING_ROOT)")
	}
	if (w.template == "") != (w.output == "") {
		e.Problem("WATCH_TEMPLATE and WATCH_OUTPUT must be set together")
	}
	n := &w.notifier
	if w.template == "" && n.pidFile == "" && n.process == "" && n.command == "" && n.url == "" {
		e.Problem("nothing is to be done when credentials change: set WATCH_TEMPLATE and WATCH_OUTPUT, or one of " +
			"WATCH_PID_FILE, WATCH_PROCESS, WATCH_COMMAND and WATCH_POST")
	}
	if n.pidFile != "" && n.process != "" {
		e.Problem("WATCH_PID_FILE and WATCH_PROCESS are both set: only one of them can be")
	}
	name := strings.TrimPrefix(strings.ToUpper(e.Text("WATCH_SIGNAL", "HUP")), "SIG")
	var ok bool
	if n.signal, ok = signals[name]; !ok {
		e.Problem("WATCH_SIGNAL is %q, and must be HUP, USR1, USR2, INT, QUIT, TERM or WINCH", name)
	}
	mode, err := strconv.ParseUint(e.Text("WATCH_MODE", "600"), 8, 32)
	if err != nil || mode > 0o777 {
		e.Problem("WATCH_MODE is %q, and must be octal permissions such as 600", e.Text("WATCH_MODE", ""))
	}
	w.mode = os.FileMode(mode)
	return w, e.Err()
}

// write writes the configuration file, if one is configured, and reports whether to tell
// the app.
func (w *watcher) write(snap snapshot) (bool, error) {
	if w.template == "" {
		return true, nil
	}
	text, err := render(w.template, snap.services, w.getenv)
	if err != nil {
		return false, fmt.Errorf("the template %s: %w", w.template, err)
	}
	changed, err := replace(w.output, text, w.mode)
	if err != nil {
		return false, fmt.Errorf("write %s: %w", w.output, err)
	}
	if changed {
		slog.Info("configuration written", "file", w.output, "services", len(snap.services), "bytes", len(text))
	}
	return changed, nil
}

// state is what watch remembers between two looks.
type state struct {
	handled, pending [sha256.Size]byte
	since            time.Time // when pending was first seen
	complaint        string
	tell             bool // the app does not know of the change yet
	tries            int
	again            time.Time // when to try to tell it again
}

// watch looks at the files until ctx is done. The configuration is written at once, and
// the app is told of later changes only: it reads the first one when it starts.
func (w *watcher) watch(ctx context.Context) error {
	var s state
	snap, err := w.source.read()
	if err == nil {
		_, err = w.write(snap)
	}
	if err != nil {
		w.complain(&s, err)
	} else {
		s.handled = snap.hash
	}
	slog.Info("watching", "path", cmp.Or(w.source.file, w.source.root), "interval", w.interval)
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		w.look(ctx, &s, time.Now())
		w.seen()
	}
}

// look handles a change once the files have not changed for some time: a rotation can
// replace several.
func (w *watcher) look(ctx context.Context, s *state, now time.Time) {
	snap, err := w.source.read()
	if snap.hash != s.pending {
		s.pending, s.since = snap.hash, now
	}
	if snap.hash != s.handled && now.Sub(s.since) >= w.settle {
		var tell bool
		if err == nil {
			tell, err = w.write(snap)
		}
		if err != nil {
			w.complain(s, err)
			return // the files, or the template, may be corrected
		}
		s.handled, s.complaint = snap.hash, ""
		if tell {
			s.tell, s.tries, s.again = true, 0, now
		}
	}
	if s.tell && !now.Before(s.again) {
		w.tell(ctx, s, now)
	}
}

// tell tells the app, and tries again later if that fails.
func (w *watcher) tell(ctx context.Context, s *state, now time.Time) {
	did, err := w.notifier.notify(ctx)
	if err == nil {
		s.tell = false
		if did != "" {
			slog.Info("credentials have changed: " + did)
		}
		return
	}
	pause := min(w.interval<<min(s.tries, 6), time.Minute)
	s.tries, s.again = s.tries+1, now.Add(pause)
	slog.Error("the app cannot be told that credentials have changed; trying again", "in", pause, "error", err)
}

// complain reports an error once.
func (w *watcher) complain(s *state, err error) {
	if s.complaint == err.Error() {
		return
	}
	s.complaint = err.Error()
	what := "nothing is done until the files are correct"
	if w.output != "" {
		if _, missing := os.Stat(w.output); !errors.Is(missing, os.ErrNotExist) {
			what = "the old configuration stays in place"
		}
	}
	slog.Error("the credentials cannot be used; "+what, "error", err)
}
