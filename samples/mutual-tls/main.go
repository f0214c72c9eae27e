// Mutual-tls shows two apps that identify each other by their certificates. With ROLE=server
// it serves TLS on its port, accepts only instances of the app ALLOWED_APP, and names
// the caller. With ROLE=client it serves HTTP and calls the server, whose guid and
// address are in SERVER_APP and SERVER_ADDRESS.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error { return run(ctx, os.Getenv) })
}

func run(ctx context.Context, getenv func(string) string) error {
	id, err := newIdentity(getenv)
	if err != nil {
		return err
	}
	switch role := getenv("ROLE"); role {
	case "server":
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", sample.WebAddress())
		if err != nil {
			return err
		}
		// Health checks connect without a handshake, which is not worth a line.
		slog.SetLogLoggerLevel(slog.LevelDebug)
		return sample.Serve(ctx, server(getenv("ALLOWED_APP")), tls.NewListener(l, id.server()))
	case "client":
		return sample.ServeWeb(ctx, client(id, getenv("SERVER_APP"), getenv("SERVER_ADDRESS")))
	default:
		return fmt.Errorf("ROLE is %q, and has to be server or client", role)
	}
}

// server answers instances of one app.
func server(allowed string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := r.TLS.PeerCertificates[0]
		if app := appOf(caller); app != allowed {
			http.Error(w, "app "+app+" may not call this app", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "hello instance %s of app %s\n", caller.Subject.CommonName, allowed) //nolint:gosec // plain text
	})
}

// client passes the answer of the server on.
func client(id *identity, app, address string) http.Handler {
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: id.client(app),
		DisableKeepAlives: true}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "https://"+address+"/", nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer, err := c.Do(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	})
}
