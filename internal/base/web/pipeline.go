package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/google/uuid"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/base/logging"
)

// RequestIDHeader carries the id of a request through every component.
const RequestIDHeader = "X-Vcap-Request-Id"

// otherIDHeader is what proxies other than gorouter use.
const otherIDHeader = "X-Request-Id"

// Pipeline wraps next with what every request needs: an id, which is in every
// log line and in the response, panic recovery, and the access log.
func Pipeline(next http.Handler, f Format, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := requestID(r)
		r.Header.Set(RequestIDHeader, id)
		w.Header().Set(RequestIDHeader, id)
		r = r.WithContext(logging.WithRequestID(r.Context(), id))

		// Routes may set other limits; requests that match no route have these.
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(deadline(DefaultLimits.Read))
		_ = control.SetWriteDeadline(deadline(DefaultLimits.Write))

		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		started := time.Now()
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler { //nolint:errorlint // the value net/http itself compares with
					panic(p)
				}
				err := background.Recovered("request", p)
				log.ErrorContext(r.Context(), "handler panicked", "panic", p, "stack", string(err.Stack))
				if ww.Status() == 0 {
					WriteError(ww, r, f, log, fault.New(fault.Internal, "panic"))
				}
			}
			// The path only: query and body may hold secrets.
			log.DebugContext(r.Context(), "request", "method", r.Method, "host", r.Host, "path", r.URL.Path,
				"status", ww.Status(), "bytes", ww.BytesWritten(), "duration", time.Since(started), "client", r.RemoteAddr)
		}()
		next.ServeHTTP(ww, r)
	})
}

// requestID returns the id that the client or a proxy gave the request, or a new one. Like Cloud
// Controller it also accepts the header that other proxies use.
func requestID(r *http.Request) string {
	for _, name := range []string{RequestIDHeader, otherIDHeader} {
		if id := r.Header.Get(name); validRequestID(id) {
			return id
		}
	}
	return uuid.NewString()
}

// validRequestID accepts the ids of other Cloud Foundry components, but nothing
// that could forge a log line.
func validRequestID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for _, c := range []byte(id) {
		ok := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' ||
			c == ':' || c == '.'
		if !ok {
			return false
		}
	}
	return true
}
