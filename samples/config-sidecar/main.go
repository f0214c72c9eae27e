// Config-sidecar provides configuration to the app beside it. It listens on
// localhost only, so that only processes of the same container can reach it.
//
//	GET /config/      {"scope": …, "password": …}
//
// CONFIG_SERVER_PORT is its port; CONFIG_SCOPE and CONFIG_PASSWORD are the values
// it returns.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		listeners, err := listen(ctx, os.Getenv("CONFIG_SERVER_PORT"))
		if err != nil {
			return fmt.Errorf("config-sidecar: %w", err)
		}
		return sample.Serve(ctx, handler(os.Getenv), listeners...)
	})
}

// listen listens on the addresses of localhost. Machines without IPv6 have only
// one.
func listen(ctx context.Context, port string) ([]net.Listener, error) {
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return nil,
			fmt.Errorf("CONFIG_SERVER_PORT is %q, and has to be a port: set it under env in the manifest, for example to 21082",
				port)
	}
	var c net.ListenConfig
	four, err := c.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	six, err := c.Listen(ctx, "tcp6", net.JoinHostPort("::1", port))
	if err != nil {
		return []net.Listener{four}, nil //nolint:nilerr // the machine has no IPv6
	}
	return []net.Listener{four, six}, nil
}

// configuration is the app's configuration.
type configuration struct {
	Scope    string `json:"scope"`
	Password string `json:"password"`
}

func handler(getenv func(string) string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /config/{$}", func(w http.ResponseWriter, _ *http.Request) {
		sample.JSON(w, http.StatusOK, configuration{
			Scope:    cmp.Or(getenv("CONFIG_SCOPE"), "some-service.admin"),
			Password: cmp.Or(getenv("CONFIG_PASSWORD"), "not-a-real-password"),
		})
	})
	return mux
}
