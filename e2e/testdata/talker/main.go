// Talker is an app that uses all protocols that the router supports, on one port:
// HTTP/1.1 and HTTP/2 without TLS.
//
//	/proto      says which protocol the request came by, and its headers
//	/ws         a WebSocket that echoes what it receives

// /events     server-sent events; the next comes when /next is asked
// /upload     answers with the size of the body and its trailer X-Sum, and
//
//	with its own trailer; with X-Refuse it does not read
//
// /endless    bytes until the client disconnects; /ended waits for that
// gRPC        the health service, of which "flips" changes at every /next
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	calls, service := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(calls, service)
	mux := http.NewServeMux()
	next, ended := make(chan struct{}), make(chan struct{}, 1)
	serving := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	mux.HandleFunc("/proto", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"proto": r.Proto, "headers": r.Header,
			"instance": os.Getenv("CF_INSTANCE_GUID")})
	})
	mux.HandleFunc("/ws", repeat)
	mux.HandleFunc("/next", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("grpc") {
			serving = 3 - serving // of SERVING and NOT_SERVING the other
			service.SetServingStatus("flips", serving)
			return
		}
		next <- struct{}{}
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; ; i++ {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				ended <- struct{}{}
				return
			}
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
		<-r.Context().Done()
		ended <- struct{}{}
	})
	mux.HandleFunc("/ended", func(http.ResponseWriter, *http.Request) { <-ended })
	mux.HandleFunc("/upload", upload)
	server := &http.Server{Addr: ":" + os.Getenv("PORT"), Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

func repeat(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(-1)
	for {
		kind, text, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, text) != nil {
			return
		}
	}
}

func upload(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Refuse") != "" {
		http.Error(w, "not wanted", http.StatusForbidden)
		return
	}
	w.Header().Set("Trailer", "X-Last")
	n, err := io.Copy(io.Discard, r.Body)
	fmt.Fprintf(w, "%s %d %v %q", r.Proto, n, err, r.Trailer.Get("X-Sum"))
	w.Header().Set("X-Last", "done")
}
