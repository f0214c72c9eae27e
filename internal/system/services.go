package system

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"ingot/internal/services"
	"ingot/internal/services/osb"
	"ingot/internal/web"
)

// openServices makes the part that talks to service brokers.
func openServices(c Config, r *runtime) *services.Services {
	return services.New(services.Config{
		Store: r.told(c.Log), Platform: r.platform, Signals: r, Log: c.Log, Number: web.Number,
		Broker: osb.Options{Timeout: c.BrokerTimeout, Guard: c.guard(), Routes: r.routes}, Worker: workerName(c.DataDir),
	})
}

// workerName is the same for every server of a data directory, of which there
// is one at a time.
func workerName(dir string) string {
	host, _ := os.Hostname() // none is a name, too
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(host + "\x00" + dir))
	return "server-" + hex.EncodeToString(sum[:8])
}

// registerBroker makes a broker known that comes with the server, or brings its
// catalog up to date. It may be called at every start, and again whenever its
// address or password changed.
func (r *runtime) registerBroker(ctx context.Context, name, url, user, password string) error {
	return r.services.Register(ctx, name, url, user, password)
}
