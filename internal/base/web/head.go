package web

import (
	"context"
	"net/http"
)

// headWriter answers a HEAD request with the handler of GET: it keeps the
// status and the headers and drops the body. net/http drops a body by itself;
// what it cannot do is end a handler whose answer has no end, such as a stream
// of events. Such a handler flushes, and its context ends then.
type headWriter struct {
	http.ResponseWriter
	end context.CancelFunc
}

func newHead(w http.ResponseWriter, r *http.Request) (*headWriter, *http.Request) {
	ctx, end := context.WithCancel(r.Context())
	return &headWriter{w, end}, r.WithContext(ctx)
}

// FlushError sends the head and ends the handler's context.
func (h *headWriter) FlushError() error {
	defer h.end()
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// Flush is FlushError for handlers that know http.Flusher only.
func (h *headWriter) Flush() { _ = h.FlushError() }

func (h *headWriter) done() { h.end() }

// Unwrap lets http.ResponseController reach the connection.
func (h *headWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }
