// Hello is the app that the manifests of the sidecars run as the main process. It
// shows what reaches it.
//
//	GET /         the request as JSON: method, path, headers, and the client's certificate
//	GET /healthz  "ok"
//	GET /call     the response of the address in CALL_URL, for example of a proxy beside it
//	GET /config   the file in CONFIG_FILE, as it was when the app started or last received SIGHUP
//	GET /trace    sends a span to the OTLP receiver at OTLP_URL
//
// It listens on HELLO_LISTEN, by default on the port of the platform.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(os.Getenv("HELLO_LISTEN"), sample.WebAddress()))
		if err != nil {
			return err
		}
		a := &app{call: os.Getenv("CALL_URL"), otlp: cmp.Or(os.Getenv("OTLP_URL"), "http://127.0.0.1:4318"),
			file: os.Getenv("CONFIG_FILE")}
		a.client.Timeout = 10 * time.Second
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP)
		a.load()
		go func() {
			for range hup {
				a.load()
			}
		}()
		return sample.Serve(ctx, a.handler(), l)
	})
}

type app struct {
	call, otlp, file string
	config           atomic.Value // []byte
	client           http.Client
}

// load reads the configuration.
func (a *app) load() {
	if a.file == "" {
		return
	}
	text, err := os.ReadFile(a.file)
	if err != nil {
		slog.Error("the configuration cannot be read", "error", err)
		return
	}
	a.config.Store(text)
	slog.Info("configuration loaded", "file", a.file, "bytes", len(text))
}

func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /call", func(w http.ResponseWriter, r *http.Request) { a.pass(w, r, http.MethodGet, a.call, nil) })
	mux.HandleFunc("GET /trace", func(w http.ResponseWriter, r *http.Request) {
		a.pass(w, r, http.MethodPost, a.otlp+"/v1/traces", span(time.Now()))
	})
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		text, ok := a.config.Load().([]byte)
		if !ok {
			http.Error(w, "no configuration was read: CONFIG_FILE is not set, or see the log", http.StatusNotFound)
			return
		}
		_, _ = w.Write(text)
	})
	mux.HandleFunc("/", show)
	return mux
}

// show responds with the request.
func show(w http.ResponseWriter, r *http.Request) {
	out := map[string]any{"method": r.Method, "path": r.URL.RequestURI(), "protocol": r.Proto, "host": r.Host,
		"headers": r.Header}
	if der, err := base64.StdEncoding.DecodeString(r.Header.Get("X-Forwarded-Client-Cert")); err == nil && len(der) > 0 {
		if c, err := x509.ParseCertificate(der); err == nil {
			out["client"] = c.Subject.String()
		}
	}
	sample.JSON(w, http.StatusOK, out)
}

// pass calls an address and responds with its response.
func (a *app) pass(w http.ResponseWriter, r *http.Request, method, address string, body []byte) {
	request, err := http.NewRequestWithContext(r.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := a.client.Do(request) //nolint:gosec // the address is the app's own setting
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(answer.Body, 1<<20)) // the client may have disconnected
}

// span returns a span in OTLP's JSON. Real apps use an SDK of OpenTelemetry.
func span(now time.Time) []byte {
	id := make([]byte, 24)
	_, _ = rand.Read(id) // never fails
	return fmt.Appendf(nil, `{"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[{"scope":{"name":"hello"},"spans":[`+
		`{"traceId":%q,"spanId":%q,"name":"GET /trace","kind":2,"startTimeUnixNano":"%d","endTimeUnixNano":"%d"}]}]}]}`,
		hex.EncodeToString(id[:16]), hex.EncodeToString(id[16:]), now.Add(-time.Millisecond).UnixNano(), now.UnixNano())
}
