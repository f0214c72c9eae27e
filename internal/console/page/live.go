package page

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
	view, err := c.viewOf(r, s)
	if err != nil {
		return err
	}
	csrf := s.csrfToken() // the same for all fragments of a stream, or each would have changed
	render := func() ([]byte, error) {
		data, err := view.Load()
		if err != nil {
			return nil, err
		}
		return c.Render(view.Fragment, Page{CSRF: csrf, Data: data})
	}
	ctx, leave, err := c.OpenStream(r, s, StreamLife(s))
	if err != nil {
		return err
	}
	defer leave()
	// Before the stream begins, so that an error is a response.
	began := time.Now()
	html, err := render()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching background.WaitGroup
	defer watching.Wait()
	defer cancel()
	happened := c.watch(ctx, r, s, view.App, &watching)
	control := BeginEvents(w)
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
		if html, err = render(); err != nil {
			// The browser reloads, and shows what is wrong.
			fmt.Fprint(w, "event: reload\ndata: {}\n\n")
			return nil
		}
	}
}

// await waits until it is time to render a page again: after a while, or shortly after
// something happened. It reports whether the stream continues.
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

// watch returns a channel that gets a value when the platform writes about an app to its log: that
// it was started, changed, or that an instance crashed. Without an app, and for users who may not
// read the log, it is silent.
func (c *Console) watch(
	ctx context.Context, r *http.Request, s *Session, app string, group *background.WaitGroup,
) <-chan struct{} {
	if app == "" {
		return nil
	}
	call := c.Platform(r.WithContext(ctx), s)
	req, err := call.Request(http.MethodGet, "/api/v1/tail/"+url.PathEscape(app)+"?recent=0&source_types=API,CELL", nil)
	if err != nil {
		return nil
	}
	w := &lineSignal{header: http.Header{}, lines: make(chan struct{}, 1)}
	group.Go("console", func() { call.Serve(w, req) })
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

// View is the live part of a page.
type View struct {
	Fragment string // its template
	Load     func() (any, error)
	App      string // guid of the app whose log says that something happened; empty for other pages
}

// viewOf returns the live part of the page that a request names.
func (c *Console) viewOf(r *http.Request, s *Session) (*View, error) {
	name := strings.TrimPrefix(r.URL.Path, Path+"/live/")
	for _, p := range c.parts {
		for _, one := range p.Screens {
			if one.Live != "" && one.Live == name {
				return one.view(r, s), nil
			}
		}
		if p.Live == nil {
			continue
		}
		if view := p.Live(r, s, name); view != nil {
			return view, nil
		}
	}
	return nil, fault.New(fault.NotFound, "There is no such page.")
}
