// Sidecar-app requests its configuration from the sidecar beside it and shows it.
//
//	GET /           describes the app
//	GET /config     returns the response of localhost:$CONFIG_SERVER_PORT/config/
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"ingot/samples/internal/sample"
)

const (
	// patience is how long a sidecar may take to start. The platform starts it
	// and the app in no particular order.
	patience = 5 * time.Second
	// largest is the maximum size of a configuration.
	largest = 1 << 20
)

func main() {
	sample.Main(func(ctx context.Context) error {
		return sample.ServeWeb(ctx, (&app{Port: os.Getenv("CONFIG_SERVER_PORT"), Patience: patience}).handler())
	})
}

type app struct {
	// Port is the sidecar's port.
	Port string
	// Patience is how long to wait for the sidecar.
	Patience time.Duration

	client http.Client
}

func (a *app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "An app with a sidecar. See /config for the response of the sidecar.")
	})
	mux.HandleFunc("GET /config", a.config)
	return mux
}

// config returns the sidecar's response.
func (a *app) config(w http.ResponseWriter, r *http.Request) {
	if a.Port == "" {
		http.Error(w, "CONFIG_SERVER_PORT is not set: set it under env in the manifest to the port that app and sidecar "+
			"share, and push again", http.StatusInternalServerError)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.Patience)
	defer cancel()
	answer, err := a.ask(ctx)
	if err != nil {
		http.Error(w, "the sidecar does not answer: "+err.Error()+"\n(its lines in `cf logs APP --recent` say why)",
			http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, largest+1))
	switch {
	case err != nil:
		http.Error(w, "the sidecar's answer breaks off: "+err.Error(), http.StatusBadGateway)
		return
	case len(text) > largest:
		http.Error(w, fmt.Sprintf("the sidecar's answer has more than %d bytes", largest), http.StatusBadGateway)
		return
	case answer.StatusCode != http.StatusOK:
		http.Error(w, fmt.Sprintf("the sidecar answers %s: %s", answer.Status, text), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	_, _ = w.Write(text) // the client may have disconnected
}

// ask retries while the sidecar does not listen yet.
func (a *app) ask(ctx context.Context) (*http.Response, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("localhost", a.Port)+"/config/",
			http.NoBody)
		if err != nil {
			return nil, fmt.Errorf("CONFIG_SERVER_PORT is no port: %w", err)
		}
		answer, err := a.client.Do(r)
		if op := (*net.OpError)(nil); err == nil || !errors.As(err, &op) || op.Op != "dial" {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}
