package system

import (
	"context"

	"ingot/internal/platform/instance/identity"
)

// identitySecret is the name of the authority's secret in the database.
const identitySecret = "instance-identity"

// openIdentity returns the authority of the certificates of instances, which the first
// server of an installation creates.
func (s *System) openIdentity(ctx context.Context, r *runtime) (*identity.Authority, error) {
	stored, _, err := r.store.Secret(ctx, identitySecret, func() ([]byte, error) {
		created, err := identity.NewAuthority()
		if err != nil {
			return nil, err
		}
		return created.Bytes()
	})
	if err != nil {
		return nil, err
	}
	return identity.ParseAuthority(stored)
}
