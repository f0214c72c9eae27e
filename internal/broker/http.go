package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"code.cloudfoundry.org/brokerapi/v13"

	"ingot/internal/base/background"
)

const maxBody = 1 << 20

// handler returns the library's API, with authentication, validation and
// logging.
func (b *Broker) handler() http.Handler {
	// The library would log parameters; logged does not.
	api := brokerapi.NewWithOptions(api{b}, slog.New(slog.DiscardHandler))
	return b.logged(b.guard.wrap(versioned(checkedBody(rotatable(api)))))
}

// apiGuard checks the password. Wrong passwords are delayed, in one queue for all
// clients.
type apiGuard struct {
	user, password string
	turn           chan struct{} // one at a time

	mu     sync.Mutex
	misses int
}

const maxWait = 2 * time.Second

func (g *apiGuard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if g.knows(user, password) {
			next.ServeHTTP(w, r)
			return
		}
		g.slow(r.Context())
		w.Header().Set("WWW-Authenticate", `Basic realm="Ingot service broker"`)
		writeError(w, http.StatusUnauthorized, "invalid user name or password")
	})
}

func (g *apiGuard) knows(user, password string) bool {
	want := sha256.Sum256([]byte(g.user + "\x00" + g.password))
	got := sha256.Sum256([]byte(user + "\x00" + password))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// slow delays the response, longer after each wrong password.
func (g *apiGuard) slow(ctx context.Context) {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return
	}
	g.mu.Lock()
	wait := min(maxWait, 10*time.Millisecond<<min(g.misses, 10))
	g.misses++
	g.mu.Unlock()
	background.Sleep(ctx, wait)
}

// versioned rejects clients of another version of the API. The library does so
// too, but with a body that does not conform to the API.
func versioned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version := r.Header.Get("X-Broker-API-Version")
		major, minor, ok := strings.Cut(version, ".")
		if major != "2" || !ok || strings.Trim(minor, "0123456789") != "" || minor == "" {
			writeError(w, http.StatusPreconditionFailed, "the header X-Broker-API-Version must be 2.x, such as 2.17")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkedBody rejects a body that is not a JSON object or is too large.
func checkedBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut && r.Method != http.MethodPatch {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			writeError(w, http.StatusRequestEntityTooLarge, "the body is longer than 1 MB, or ended early")
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil || object == nil {
			writeError(w, http.StatusBadRequest, "the body must be a JSON object")
			return
		}
		for _, name := range []string{"service_id", "plan_id", "organization_guid", "space_guid", "app_guid",
			"predecessor_binding_id"} {
			var text string
			if raw, ok := object[name]; ok && string(raw) != "null" && json.Unmarshal(raw, &text) != nil {
				writeError(w, http.StatusBadRequest, name+" must be a string")
				return
			}
		}
		for _, name := range []string{"context", "parameters", "bind_resource", "previous_values", "maintenance_info"} {
			var fields map[string]json.RawMessage
			if raw, ok := object[name]; ok && string(raw) != "null" && json.Unmarshal(raw, &fields) != nil {
				writeError(w, http.StatusBadRequest, name+" must be an object")
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, withPredecessor(r, object))
	})
}

func writeError(w http.ResponseWriter, status int, description string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// nothing can be done when the client is gone
	_ = json.NewEncoder(w).Encode(map[string]string{"description": description})
}

// logged logs each request, without its body.
func (b *Broker) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		if id := r.Header.Get("X-Broker-API-Request-Identity"); id != "" {
			w.Header().Set("X-Broker-API-Request-Identity", id)
		}
		next.ServeHTTP(s, r)
		level := slog.LevelDebug
		if s.status >= http.StatusInternalServerError {
			level = slog.LevelWarn
		}
		b.config.Log.Log(r.Context(), level, "service broker", "method", r.Method, "path", r.URL.Path, "status", s.status,
			"took", time.Since(began).String(), "identity", r.Header.Get("X-Broker-API-Request-Identity"))
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}
