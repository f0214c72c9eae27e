package actions

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// CreateUser stores a user by its id in the authorization server.
func (p *Platform) CreateUser(tx platform.Tx, u *platform.User) error {
	err := tx.Users().Insert(u)
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "User with guid '%s' already exists.", u.GUID)
	}
	return err
}

// DeleteUser removes a user with its roles. The authorization server keeps its
// own record.
func (p *Platform) DeleteUser(tx platform.Tx, u *platform.User) error {
	if _, err := tx.Roles().DeleteAll(platform.Where("user_guid", u.GUID)); err != nil {
		return err
	}
	return tx.Users().Delete(u.GUID)
}

// StandingInSpace loads what decides what a caller may do in a space.
func StandingInSpace(tx platform.Tx, c platform.Caller, space *platform.Space) (platform.Standing, error) {
	return standing(tx, c, space.OrgGUID, platform.In("within_space_guid", space.GUID))
}

// StandingInOrganization loads what decides what a caller may do in an
// organization.
func StandingInOrganization(tx platform.Tx, c platform.Caller, orgGUID string) (platform.Standing, error) {
	return standing(tx, c, orgGUID, platform.In("organization_guid", orgGUID))
}

func standing(tx platform.Tx, c platform.Caller, orgGUID string, held platform.Cond) (platform.Standing, error) {
	s := platform.Standing{Authority: c.Authority}
	if c.Admin { // and needs no role
		return s, nil
	}
	roles, _, err := tx.Roles().List(platform.Where("user_guid", c.GUID).And(held))
	if err != nil {
		return s, err
	}
	for _, r := range roles {
		s.Roles = append(s.Roles, r.Type)
	}
	org, err := tx.Organizations().Get(orgGUID)
	if err == nil {
		s.Suspended = org.Suspended
	}
	return s, err
}

// SeesApp reports whether a caller may see an app, and with it its log.
func SeesApp(ctx context.Context, store platform.Store, c platform.Caller, appGUID string) (bool, error) {
	q := platform.Where("guid", appGUID)
	q.Reader = c.Reader()
	n, err := db.Within(ctx, store.View, func(tx platform.Tx) (int, error) { return tx.Apps().Count(q) })
	return n > 0, err
}
