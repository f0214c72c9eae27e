package web

import (
	"context"
	"net/http"
)

// headWriter answers a HEAD request with the handler for GET: it keeps the
// status and the headers and discards the body. net/http discards the body
// itself, but cannot stop a handler whose response never ends, such as an event
// stream. Such a handler flushes; then its context is canceled.
type headWriter struct {
	http.ResponseWriter
	end context.CancelFunc
}

func newHead(w http.ResponseWriter, r *http.Request) (*headWriter, *http.Request) {
	ctx, end := context.WithCancel(r.Context())
	return &headWriter{w, end}, r.WithContext(ctx)
}

// FlushError sends the headers and cancels the handler's context.
func (h *headWriter) FlushError() error {
	defer h.end()
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// Flush is FlushError for handlers that use http.Flusher.
func (h *headWriter) Flush() { _ = h.FlushError() }

func (h *headWriter) done() { h.end() }

// Unwrap lets http.ResponseController reach the connection.
func (h *headWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }
