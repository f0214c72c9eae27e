package router

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// notConnected reports whether the request cannot have reached a backend.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// hungUp reports whether the backend closed the connection before it answered.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection")
}

// idempotent reports whether a request may be repeated: because of its method, or because
// the client sent an idempotency key.
func idempotent(method string, keyed bool) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return keyed
}

func idempotencyKeyed(h http.Header) bool {
	return h.Get("Idempotency-Key") != "" || h.Get("X-Idempotency-Key") != ""
}
