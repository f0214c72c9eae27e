package router

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// notConnected tells whether the request cannot have reached anybody.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// hungUp tells whether the backend ended the connection before it answered.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		strings.Contains(err.Error(), "server closed idle connection")
}

// idempotent tells whether doing it twice is as good as once: by the method, or
// because the client says that it has a key to tell.
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
