package page

import (
	"context"
	"net/http"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

const (
	// liveLife is how long a stream lasts; browsers open another one.
	liveLife = 10 * time.Minute
	// maxStreams is how many streams and shells the pages of a user may have open.
	maxStreams = 20
	// sessionCheck is how often the session of an open stream is looked up: it may have ended
	// at another server of the cluster, or with its token.
	sessionCheck = 5 * time.Second
)

// Reasons of the end of a stream, which may also be one that is just being opened.
var (
	ErrLoggedOut = fault.New(fault.Unauthenticated, "you have been logged out")
	ErrStopping  = fault.New(fault.Unavailable, "the server is restarting")
)

// streams are the open streams and shells.
type streams struct {
	mu     sync.Mutex
	byUser map[string]int
	// bySession are the functions that end the streams of a session.
	bySession map[string]map[*context.CancelCauseFunc]bool
}

// enter counts a stream of a session, whose end calls cancel. It returns the function that
// ends the count.
func (s *streams) enter(session *Session, cancel context.CancelCauseFunc) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUser == nil {
		s.byUser, s.bySession = map[string]int{}, map[string]map[*context.CancelCauseFunc]bool{}
	}
	if s.byUser[session.UserID] >= maxStreams {
		return nil, fault.New(fault.RateLimited, "Too many pages of the console are open: %d. Close some of them.",
			maxStreams)
	}
	s.byUser[session.UserID]++
	if s.bySession[session.Hash] == nil {
		s.bySession[session.Hash] = map[*context.CancelCauseFunc]bool{}
	}
	key := &cancel
	s.bySession[session.Hash][key] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.byUser[session.UserID]--; s.byUser[session.UserID] == 0 {
			delete(s.byUser, session.UserID)
		}
		if delete(s.bySession[session.Hash], key); len(s.bySession[session.Hash]) == 0 {
			delete(s.bySession, session.Hash)
		}
	}, nil
}

// end ends the streams of a session that was deleted.
func (s *streams) end(hash string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cancel := range s.bySession[hash] {
		(*cancel)(ErrLoggedOut)
	}
}

// StreamLife returns how long a stream may use the token of its session.
func StreamLife(s *Session) time.Duration {
	return min(liveLife, max(time.Second, time.Until(s.AccessExpires)-refreshEarly/2))
}

// OpenStream counts a stream and returns its context, which ends with the request, the
// session, the server, and after life; 0 means no limit. Its cause says why. leave has to be
// called.
func (c *Console) OpenStream(r *http.Request, s *Session, life time.Duration) (ctx context.Context, leave func(),
	err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	left, err := c.streams.enter(s, cancel)
	if err != nil {
		cancel(nil)
		return nil, nil, err
	}
	stop := background.OnDone(web.Closing(r.Context()), "console stream", func() { cancel(ErrStopping) })
	done := func() {}
	if life > 0 {
		ctx, done = context.WithTimeout(ctx, life)
	}
	var watch background.WaitGroup
	watch.Go("console session", func() { c.watchSession(ctx, r, s.Hash, cancel) })
	return ctx, func() {
		done()
		cancel(nil)
		stop()
		watch.Wait()
		left()
	}, nil
}

// BeginEvents begins a response of server-sent events, and returns the controller of its deadlines.
func BeginEvents(w http.ResponseWriter) *http.ResponseController {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	return control
}

// watchSession ends a stream when its session has ended.
func (c *Console) watchSession(ctx context.Context, r *http.Request, hash string, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(sessionCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// A store that does not answer now may do so later.
		if s, err := c.SessionOf(r.WithContext(ctx), hash); err == nil && s == nil {
			cancel(ErrLoggedOut)
			return
		}
	}
}
