package system

import (
	"context"
	"errors"
	"fmt"

	"ingot/internal/platform/edge/certnames"
	"ingot/internal/server/acme"
	"ingot/internal/server/certs"
	"ingot/internal/server/health"
)

// openACME starts to order certificates, if that is configured.
func (s *System) openACME(ctx context.Context, b *frontend, r *runtime) error {
	c := s.config
	if b.secure == nil || !c.acme() {
		return nil
	}
	o := acme.Options{
		Email: c.ACMEEmail, Directory: c.ACMEDirectory, Hook: c.ACMEDNSHook, Store: r.store.Certificates(),
		HTTP: b.public.Addr(), TLS: b.secure.listener.Addr(), Default: "api." + c.Domain,
		Decide: decide(certnames.Names{Store: r.store, Host: r.table.Host, Domain: c.Domain, Own: c.ownNames(),
			Wildcards: c.ACMEDNSHook != ""}), Log: c.Log,
	}
	if c.ACMECA != "" {
		var err error
		if o.Roots, err = certs.Pool(c.ACMECA); err != nil {
			return fmt.Errorf("--acme-ca: %w", err)
		}
	}
	m := acme.New(o)
	if err := s.steps.Run(ctx, m); err != nil {
		return err
	}
	b.registry.MustRegister(health.Recovering{Collector: m})
	b.secure.ACME.Store(m)
	return nil
}

// decide returns which names have certificates, for the client that orders them.
func decide(names certnames.Names) func(context.Context, string) (acme.Grant, error) {
	return func(ctx context.Context, name string) (acme.Grant, error) {
		grant, err := names.Decide(ctx, name)
		var refused certnames.Refusal
		if errors.As(err, &refused) {
			err = acme.Refusal(refused)
		}
		return acme.Grant(grant), err
	}
}
