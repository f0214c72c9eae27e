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
	names    []string
	internal []string
	read     time.Time
}

// domainsKept is how long the shared domains are cached.
const domainsKept = 2 * time.Second

// Has reports whether a name is one of the platform. It is Config.Ours.
func (o *PlatformNames) Has(name string) bool {
	if slices.Contains(o.Own, name) {
		return true
	}
	return below(name, o.domains().names)
}

// Internal reports whether a name is one of an internal domain.
func (o *PlatformNames) Internal(name string) bool { return below(name, o.domains().internal) }

// below reports whether a name is one of domains or below one.
func below(name string, domains []string) bool {
	return slices.ContainsFunc(domains, func(d string) bool { return name == d || strings.HasSuffix(name, "."+d) })
}

func (o *PlatformNames) domains() *keptDomains {
	kept := o.kept.Load()
	if kept != nil && time.Since(kept.read) < domainsKept {
		return kept
	}
	ctx, cancel := context.WithTimeout(context.Background(), domainsKept)
	defer cancel()
	next := &keptDomains{read: time.Now()}
	err := o.Store.View(ctx, func(tx platform.Tx) error {
		next.names, next.internal = nil, nil
		all, _, err := tx.Domains().List(platform.Query{})
		for _, d := range all {
			switch {
			case d.Internal:
				next.internal = append(next.internal, strings.ToLower(d.Name))
			case d.OrgGUID == "":
				next.names = append(next.names, strings.ToLower(d.Name))
			}
		}
		return err
	})
	if err != nil {
		o.Log.Warn("the shared domains could not be read", "error", err)
		if kept != nil {
			next.names, next.internal = kept.names, kept.internal
		}
	}
	o.kept.Store(next)
	return next
}
