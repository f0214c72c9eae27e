package accesslog

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"ingot/internal/platform"
)

// Relay keeps access lines until the next process stores them. It implements Lines.
type Relay struct {
	Log *slog.Logger

	mu      sync.Mutex
	post    func(lines []byte) error // nil until it serves
	waiting []platform.LogLine
	dropped int
}

const (
	// maxWaiting is how many lines wait for the next process; a line has about 300 bytes.
	maxWaiting = 100_000
	// relayed is how many lines one request has.
	relayed = 2000
)

// Tell implements Lines.
func (l *Relay) Tell(lines ...platform.LogLine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.post != nil {
		return l.send(lines)
	}
	room := min(len(lines), maxWaiting-len(l.waiting))
	l.waiting = append(l.waiting, lines[:room]...)
	l.dropped += len(lines) - room
	return nil
}

// Pass sends the lines that wait, and those that follow, to Receive of the next process.
func (l *Relay) Pass(post func(lines []byte) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.post = post
	if err := l.send(l.waiting); err != nil {
		l.Log.Warn("access lines could not be passed to the new process", "lines", len(l.waiting), "error", err)
	}
	l.waiting = nil
	if l.dropped > 0 {
		l.Log.Warn("access lines were dropped, because the new process took long to start", "lines", l.dropped)
	}
}

func (l *Relay) send(lines []platform.LogLine) error {
	for part := range slices.Chunk(lines, relayed) {
		body, err := json.Marshal(part)
		if err != nil {
			return err
		}
		if err := l.post(body); err != nil {
			return err
		}
	}
	return nil
}

// maxForwardedLines limits the body of one request with lines.
const maxForwardedLines = 64 << 20

// Receive stores the access lines of requests that the process before this one still
// serves.
func Receive(to Lines, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var lines []platform.LogLine
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxForwardedLines)).Decode(&lines)
		if err == nil {
			err = to.Tell(lines...)
		}
		if err != nil {
			log.Warn("access lines of the process before this one could not be stored", "error", err)
			http.Error(w, "the lines could not be stored", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
