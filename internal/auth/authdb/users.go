package authdb

import (
	"context"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

const userColumns = "id, user_name, origin, external_id, given_name, family_name, email, phone, active, verified, " +
	"password_hash, password_changed_at, created_at, modified_at, version, " +
	"last_login_at, previous_login_at, login_failures, last_failure_at, locked_until, locale"

// userKeys are written with userColumns and never read.
const userKeys = "user_name_key, email_key"

var users = listing[*auth.User]{
	table:   "auth_users",
	columns: userColumns,
	scan:    scanUser,
	attrs: attributes{
		"id":                 {"id", exact},
		"username":           {"user_name_key", folded},
		"email":              {"email_key", folded},
		"emails":             {"email_key", folded},
		"emails.value":       {"email_key", folded},
		"origin":             {"origin", exact},
		"externalid":         {"external_id", exact},
		"active":             {"active", boolean},
		"verified":           {"verified", boolean},
		"name.familyname":    {"family_name", exact},
		"familyname":         {"family_name", exact},
		"name.givenname":     {"given_name", exact},
		"givenname":          {"given_name", exact},
		"phonenumbers":       {"phone", exact},
		"phonenumbers.value": {"phone", exact},
		"meta.created":       {"created_at", instant},
		"created":            {"created_at", instant},
		"meta.lastmodified":  {"modified_at", instant},
		"lastmodified":       {"modified_at", instant},
		"meta.version":       {"version", number},
		"version":            {"version", number},
	},
}

// optional lists the columns of attributes that may be absent, of all resource
// types.
var optional = map[string]bool{
	"external_id": true, "given_name": true, "family_name": true, "email_key": true, "phone": true, "description": true,
}

func scanUser(s db.Scanner) (*auth.User, error) {
	var u auth.User
	err := s.Scan(&u.ID, &u.UserName, &u.Origin, text{&u.ExternalID}, text{&u.GivenName}, text{&u.FamilyName},
		text{&u.Email}, text{&u.Phone}, &u.Active, &u.Verified,
		&u.PasswordHash, moment{&u.PasswordChanged}, moment{&u.Created}, moment{&u.Modified}, &u.Version,
		moment{&u.Login.Last}, moment{&u.Login.Previous}, new(int), new(int64), new(int64), text{&u.Locale})
	return &u, err
}

func userValues(u *auth.User) []any {
	return []any{
		u.ID, u.UserName, u.Origin, orNull(u.ExternalID), orNull(u.GivenName), orNull(u.FamilyName),
		orNull(u.Email), orNull(u.Phone), u.Active, u.Verified,
		u.PasswordHash, db.Nanos(u.PasswordChanged), db.Nanos(u.Created), db.Nanos(u.Modified), u.Version,
		db.Nanos(u.Login.Last), db.Nanos(u.Login.Previous), 0, 0, 0, // failed logins, which are counted in memory now
		orNull(u.Locale), lower(u.UserName), orNull(lower(u.Email)),
	}
}

func user(tx *db.Tx, id string) (*auth.User, error) {
	return one(tx, scanUser, "SELECT "+userColumns+" FROM auth_users WHERE id = ?", id)
}

// User implements auth.Store.
func (s *Store) User(ctx context.Context, id string) (*auth.User, error) {
	return read(ctx, s, func(tx *db.Tx) (*auth.User, error) { return user(tx, id) })
}

// UserByName implements auth.Store.
func (s *Store) UserByName(ctx context.Context, name, origin string) (*auth.User, error) {
	return view(ctx, s, func(tx *db.Tx) (*auth.User, error) {
		return one(tx, scanUser, "SELECT "+userColumns+" FROM auth_users WHERE user_name_key = ? AND origin = ?",
			lower(name), origin)
	})
}

// contacts lists users with their ids and addresses only.
var contacts = listing[*auth.User]{
	table:   users.table,
	columns: "id, email",
	scan: func(s db.Scanner) (*auth.User, error) {
		var u auth.User
		return &u, s.Scan(&u.ID, text{&u.Email})
	},
	attrs: users.attrs,
}

// Users implements auth.Store.
func (s *Store) Users(ctx context.Context, q auth.Query) ([]*auth.User, int, error) {
	if q.Contacts {
		return contacts.list(ctx, s, q)
	}
	return users.list(ctx, s, q)
}

// CreateUser implements auth.Store. The id, and the name in its origin, must not
// exist yet.

func (s *Store) CreateUser(ctx context.Context, u *auth.User) error {
	return s.write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(insert("auth_users", userColumns+", "+userKeys), userValues(u)...)
		return err
	})
}

// UpdateUser implements auth.Store. The id cannot be changed.
func (s *Store) UpdateUser(ctx context.Context, id string, change func(*auth.User) error) (*auth.User, error) {
	return update(ctx, s, func(tx *db.Tx) (*auth.User, error) {
		u, err := user(tx, id)
		if err != nil {
			return nil, err
		}
		if err := change(u); err != nil {
			return nil, err
		}
		u.ID = id
		_, err = tx.Exec("UPDATE auth_users SET "+set(userColumns+", "+userKeys)+" WHERE id = ?",
			append(userValues(u), id)...)
		return u, err
	})
}

// DeleteUser implements auth.Store.
func (s *Store) DeleteUser(ctx context.Context, id string) (*auth.User, error) {
	return update(ctx, s, func(tx *db.Tx) (*auth.User, error) {
		u, err := user(tx, id)
		if err != nil {
			return nil, err
		}
		return u, exec(tx, id,
			"DELETE FROM auth_members WHERE member_id = ?",
			"DELETE FROM auth_codes WHERE user_id = ?",
			"DELETE FROM auth_sessions WHERE user_id = ?",
			"DELETE FROM auth_refresh_tokens WHERE user_id = ?",
			"DELETE FROM auth_users WHERE id = ?")
	})
}
