package actions

import (
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
