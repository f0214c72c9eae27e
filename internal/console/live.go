package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
)

const (
	// liveEvery is how often a live page is rendered again.
	liveEvery = 500 * time.Millisecond
	// liveShare limits the time that a stream spends rendering: a part of all time. A page that
	// is slow to render is rendered less often, except after an event.
	liveShare = 20
	// liveGather is how long further events are awaited after one.
	liveGather = 50 * time.Millisecond
)

// live is GET /console/live/PAGE: it sends the live part of a page whenever it has changed.
func (c *Console) live(w http.ResponseWriter, r *http.Request, s *Session) error {
	view, err := c.liveView(r, s)
	if err != nil {
		return err
	}
	ctx, leave, err := c.openStream(r, s, streamLife(s))
	if err != nil {
		return err
	}
	defer leave()
	// Before the stream begins, so that an error is a response.
	began := time.Now()
	html, err := view()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching background.WaitGroup
	defer watching.Wait()
	defer cancel()
	happened := c.watch(ctx, r, s, &watching)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	var last [sha256.Size]byte
	for quiet := 0; ; {
		sum := sha256.Sum256(html)
		switch quiet++; {
		case sum != last:
			b, err := json.Marshal(string(html))
			if err != nil {
				return nil //nolint:nilerr // the response has begun
			}
			fmt.Fprintf(w, "event: fragment\ndata: %s\n\n", b)
			last, quiet = sum, 0
		case quiet > int(15*time.Second/liveEvery):
			fmt.Fprint(w, ": still here\n\n")
			quiet = 0
		}
		_ = control.SetWriteDeadline(time.Now().Add(30 * time.Second))
		if control.Flush() != nil {
			return nil
		}
		if !await(ctx, max(liveEvery, liveShare*time.Since(began)), happened) {
			return nil
		}
		began = time.Now()
		if html, err = view(); err != nil {
			// The browser reloads, and shows what is wrong.
			fmt.Fprint(w, "event: reload\ndata: {}\n\n")
			return nil
		}
	}
}

// await waits until it is time to render a page again: after a while, or shortly after
// something happened. It reports whether the stream goes on.
func await(ctx context.Context, most time.Duration, happened <-chan struct{}) bool {
	pause := time.NewTimer(most)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-pause.C:
			return true
		case <-happened:
			happened = nil
			pause.Reset(min(most, liveGather))
		}
	}
}

// watch returns a channel that gets a value when the platform writes about the page's app to
// its log: that it was started, changed, or that an instance crashed. For other pages, and for
// users who may not read the log, it is silent.
func (c *Console) watch(ctx context.Context, r *http.Request, s *Session, group *background.WaitGroup) <-chan struct{} {
	rest, isApp := strings.CutPrefix(r.URL.Path, Path+"/live/apps/")
	if !isApp {
		return nil
	}
	guid, _, _ := strings.Cut(rest, "/")
	call := c.platform(r, s)
	call.ctx = ctx
	req, err := call.request(http.MethodGet, "/api/v1/tail/"+url.PathEscape(guid)+"?recent=0&source_types=API,CELL", nil)
	if err != nil {
		return nil
	}
	w := &lineSignal{header: http.Header{}, lines: make(chan struct{}, 1)}
	group.Go("console", func() { call.to.ServeHTTP(w, req) })
	return w.lines
}

// lineSignal is the response writer of a live tail whose lines are not read: lines gets a
// value when there are some.
type lineSignal struct {
	header http.Header
	lines  chan struct{}
}

// Header implements http.ResponseWriter.
func (s *lineSignal) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *lineSignal) WriteHeader(int) {}

// Flush implements http.Flusher.
func (s *lineSignal) Flush() {}

// Write implements http.ResponseWriter.
func (s *lineSignal) Write(text []byte) (int, error) {
	if !bytes.HasPrefix(text, []byte(":")) { // a comment keeps the connection open
		select {
		case s.lines <- struct{}{}:
		default:
		}
	}
	return len(text), nil
}

// liveView returns the function that renders the live part of a page.
func (c *Console) liveView(r *http.Request, s *Session) (func() ([]byte, error), error) {
	name := strings.TrimPrefix(r.URL.Path, Path+"/live/")
	rest, isApp := strings.CutPrefix(name, "apps/")
	guid, tab, _ := strings.Cut(rest, "/")
	service, isService := strings.CutPrefix(name, "services/")
	var load func() (any, error)
	fragment := ""
	switch {
	case name == "home":
		fragment, load = "home-live", func() (any, error) { return c.loadHome(r, s) }
	case name == "apps":
		fragment, load = "apps-live", func() (any, error) { return c.loadApps(r, s) }
	case name == "system":
		fragment, load = "system-live", func() (any, error) { return c.loadSystem(r, s) }
	case isApp && guid != "" && tab == "":
		fragment, load = "app-live", func() (any, error) { return c.loadApp(r, s, guid) }
	case name == "services":
		fragment, load = "services-live", func() (any, error) { return c.loadServices(r, s) }
	case isService && service != "" && !strings.Contains(service, "/"):
		fragment, load = "service-live", func() (any, error) { return c.loadService(r, s, service) }
	case isApp && guid != "" && liveTabs[tab] != nil:
		fragment, load = tab+"-live", func() (any, error) { return c.loadTab(r, s, guid, tab, liveTabs[tab]) }
	default:
		if fragment, load = c.notificationView(r, s, name); load == nil {
			return nil, fault.New(fault.NotFound, "There is no such page.")
		}
	}
	csrf := s.csrfToken() // the same for all fragments of a stream, or each would have changed
	return func() ([]byte, error) {
		data, err := load()
		if err != nil {
			return nil, err
		}
		return c.pages.render(fragment, page{CSRF: csrf, Data: data})
	}, nil
}
