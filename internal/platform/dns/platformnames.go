package dns

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/platform"
)

// PlatformNames are the names that are answered with the platform's address: its
// own names, and those of shared domains, which only an administrator creates. A
// private domain proves nothing about its owner, so public name servers answer
// for it.
type PlatformNames struct {
	Store platform.Store
	// Own are the names of the platform itself.
	Own []string
	Log *slog.Logger

	kept atomic.Pointer[keptDomains]
}

type keptDomains struct {
	names []string
	read  time.Time
}

// domainsKept is how long the shared domains are cached.
const domainsKept = 2 * time.Second

// Has reports whether a name is one of the platform. It is Config.Ours.
func (o *PlatformNames) Has(name string) bool {
	if slices.Contains(o.Own, name) {
		return true
	}
	for _, d := range o.shared() {
		if name == d || strings.HasSuffix(name, "."+d) {
			return true
		}
	}
	return false
}

func (o *PlatformNames) shared() []string {
	kept := o.kept.Load()
	if kept != nil && time.Since(kept.read) < domainsKept {
		return kept.names
	}
	ctx, cancel := context.WithTimeout(context.Background(), domainsKept)
	defer cancel()
	next := &keptDomains{read: time.Now()}
	err := o.Store.View(ctx, func(tx platform.Tx) error {
		next.names = nil
		all, _, err := tx.Domains().List(platform.Query{})
		for _, d := range all {
			if d.OrgGUID == "" && !d.Internal {
				next.names = append(next.names, strings.ToLower(d.Name))
			}
		}
		return err
	})
	if err != nil {
		o.Log.Warn("the shared domains could not be read", "error", err)
		if kept == nil {
			return nil
		}
		next.names = kept.names
	}
	o.kept.Store(next)
	return next.names
}
