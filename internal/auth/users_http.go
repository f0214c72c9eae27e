package auth

import (
	"errors"
	"net/http"
	"net/mail"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
)

// userBody is the JSON representation of a user. A nil pointer is a field that a
// PATCH does not change.
type userBody struct {
	ID         string    `json:"id"`
	UserName   *string   `json:"userName"`
	Origin     *string   `json:"origin"`
	ExternalID *string   `json:"externalId"`
	Password   *string   `json:"password"`
	Active     *bool     `json:"active"`
	Verified   *bool     `json:"verified"`
	Name       *userName `json:"name"`
	Emails     []email   `json:"emails"`
	Locale     *string   `json:"locale"`
	Phones     []struct {
		Value string `json:"value"`
	} `json:"phoneNumbers"`
}

type userName struct {
	Given  string `json:"givenName"`
	Family string `json:"familyName"`
}

type email struct {
	Value   string `json:"value"`
	Primary bool   `json:"primary"`
}

// apply copies the fields of the body to u. If all is set, missing fields are
// reset, as PUT requires.
func (b *userBody) apply(u *User, all bool) {
	text := func(dest *string, src *string) {
		if src != nil {
			*dest = *src
		} else if all {
			*dest = ""
		}
	}
	web.Set(&u.UserName, b.UserName)
	if b.Origin != nil && *b.Origin != "" {
		u.Origin = *b.Origin
	}
	text(&u.ExternalID, b.ExternalID)
	text(&u.Locale, b.Locale)
	web.Set(&u.Active, b.Active)
	web.Set(&u.Verified, b.Verified)
	if b.Name != nil {
		u.GivenName, u.FamilyName = b.Name.Given, b.Name.Family
	} else if all {
		u.GivenName, u.FamilyName = "", ""
	}
	for i, e := range b.Emails {
		if i == 0 || e.Primary {
			u.Email = e.Value
		}
	}
	if len(b.Phones) > 0 {
		u.Phone = b.Phones[0].Value
	} else if all {
		u.Phone = ""
	}
}

// localeForm allows the tags of BCP 47, and what other authorization servers write for them: en_US.
var localeForm = pattern.OnUse(`^([A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8}){0,6})?$`)

func (u *User) validate() error {
	if strings.TrimSpace(u.UserName) == "" || len(u.UserName) > 255 || strings.ContainsAny(u.UserName, "\x00\r\n\t\"\\") {
		return invalidScim("A username must be provided: 1 to 255 characters, without quotes or control characters.")
	}
	if !localeForm().MatchString(u.Locale) {
		return invalidScim("%q is not a locale such as de or pt-BR.", u.Locale)
	}
	if u.Email == "" {
		return invalidScim("Exactly one email must be provided.")
	}
	addr, err := mail.ParseAddress(u.Email)
	if err != nil && !strings.Contains(u.Email, "@") && u.Email == u.UserName && len(u.Email) <= 255 &&
		!strings.ContainsAny(u.Email, " <>\r\n") {
		// `cf create-user NAME` sends the plain name as address.
		return nil
	}
	if err != nil || addr.Address != u.Email || len(u.Email) > 255 {
		return invalidScim("%q is not an email address.", u.Email)
	}
	return nil
}

func checkPassword(p string) error {
	if p == "" || len(p) > 255 {
		return fault.New(fault.Unprocessable, "Password must be 1 to 255 characters long.").WithKind("invalid_password")
	}
	return nil
}

func userNotFound(id string) error {
	return fault.New(fault.NotFound, "User %s does not exist", id).WithKind("scim_resource_not_found")
}

// body returns the JSON representation of a user, without the password.
func (u *User) body(groups []*Group) map[string]any {
	shown := make([]map[string]any, 0, len(groups)+len(defaultGroups))
	for _, g := range groups {
		shown = append(shown, map[string]any{"value": g.ID, "display": g.Name, "type": "DIRECT"})
	}
	out := map[string]any{
		"id": u.ID, "userName": u.UserName, "origin": u.Origin, "externalId": u.ExternalID, "zoneId": ZoneID,
		"name":   map[string]string{"givenName": u.GivenName, "familyName": u.FamilyName},
		"emails": []email{{u.Email, true}}, "active": u.Active, "verified": u.Verified,
		"groups": shown, "approvals": []any{}, "meta": scimMeta(u.Version, u.Created, u.Modified),
		"schemas": []string{"urn:scim:schemas:core:1.0"},
	}
	if u.Locale != "" {
		out["locale"] = u.Locale
	}
	if u.Phone != "" {
		out["phoneNumbers"] = []map[string]string{{"value": u.Phone}}
	}
	if !u.PasswordChanged.IsZero() {
		out["passwordLastModified"] = scimTime(u.PasswordChanged)
	}
	if !u.Login.Last.IsZero() {
		out["lastLogonTime"] = u.Login.Last.UnixMilli()
	}
	if !u.Login.Previous.IsZero() {
		out["previousLogonTime"] = u.Login.Previous.UnixMilli()
	}
	return out
}

func (s *Server) writeUser(w http.ResponseWriter, r *http.Request, status int, u *User) error {
	groups, err := s.store.GroupsOf(r.Context(), u.ID)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(u.Version))
	return web.Answer(w, status, u.body(groups), nil)
}

func (s *Server) listUsers(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	q.Contacts = wantsContacts(r)
	page, total, err := s.store.Users(r.Context(), q)
	if err != nil {
		return listFault(err)
	}
	if q.Contacts {
		out := make([]contact, 0, len(page))
		for _, u := range page {
			out = append(out, contact{[]email{{u.Email, true}}, u.ID})
		}
		writePage(w, q, total, out)
		return nil
	}
	groups := map[string][]*Group{}
	if wanted(r, "groups") {
		ids := make([]string, 0, len(page))
		for _, u := range page {
			ids = append(ids, u.ID)
		}
		if groups, err = s.store.GroupsOfAll(r.Context(), ids); err != nil {
			return err
		}
	}
	out := make([]map[string]any, 0, len(page))
	for _, u := range page {
		out = append(out, u.body(groups[u.ID]))
	}
	writeList(w, r, q, total, out)
	return nil
}

// contact is a user in a list of addresses.
type contact struct {
	Emails []email `json:"emails"`
	ID     string  `json:"id"`
}

// wantsContacts reports whether a request asks for ids and addresses only. A send to everyone
// reads all users so, which would otherwise take a quarter of its processor time.
func wantsContacts(r *http.Request) bool {
	only := splitWords(r.URL.Query().Get("attributes"))
	slices.Sort(only)
	return slices.Equal(only, []string{"emails", "id"})
}

// wanted reports whether the response includes an attribute, so that a list of
// addresses does not have to load the groups.
func wanted(r *http.Request, member string) bool {
	only := splitWords(r.URL.Query().Get("attributes"))
	return len(only) == 0 || len(cut(map[string]any{member: nil}, only)) > 0
}

func (s *Server) createUser(w http.ResponseWriter, r *http.Request) error {
	var body userBody
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	now := s.now()
	u := &User{ID: newID(), Origin: OriginUAA, Active: true, Verified: true, Created: now, Modified: now}
	body.apply(u, true)
	if err := u.validate(); err != nil {
		return err
	}
	if u.Origin == OriginUAA {
		if body.Password == nil {
			return fault.New(fault.Unprocessable, "A password must be given for users of origin %q.", OriginUAA).
				WithKind("invalid_password")
		}
		if err := checkPassword(*body.Password); err != nil {
			return err
		}
		var err error
		if u.PasswordHash, err = s.hash.hash(r.Context(), *body.Password); err != nil {
			return err
		}
		u.PasswordChanged = now
	}
	err := s.store.CreateUser(r.Context(), u)
	if err != nil {
		return userFault(err, u.ID)
	}
	s.log.InfoContext(r.Context(), "user created", "user", u.ID)
	return s.writeUser(w, r, http.StatusCreated, u)
}

// userFault converts the store's errors to client errors.
func userFault(err error, id string) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return userNotFound(id)
	case errors.Is(err, ErrConflict):
		return fault.New(fault.Conflict, "Username already in use.").WithKind("scim_resource_already_exists")
	}
	return err
}

// isSelf reports whether the caller is the user of the address.
func isSelf(r *http.Request) bool {
	return token.FromContext(r.Context()).UserID == web.Param(r, "id")
}

func may(r *http.Request, scopes ...string) bool {
	return token.FromContext(r.Context()).HasAny(scopes...)
}

func (s *Server) getUser(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	if !may(r, "scim.read", "uaa.admin") && !isSelf(r) {
		return web.Insufficient("scim.read", "uaa.admin")
	}
	u, err := s.store.User(r.Context(), id)
	if err != nil {
		return userFault(err, id)
	}
	return s.writeUser(w, r, http.StatusOK, u)
}

func (s *Server) updateUser(w http.ResponseWriter, r *http.Request) error {
	return s.changeUser(w, r, true)
}

func (s *Server) patchUser(w http.ResponseWriter, r *http.Request) error {
	return s.changeUser(w, r, false)
}

func (s *Server) changeUser(w http.ResponseWriter, r *http.Request, all bool) error {
	id := web.Param(r, "id")
	admin := may(r, "scim.write", "uaa.admin")
	if !admin && !isSelf(r) {
		return web.Insufficient("scim.write", "uaa.admin")
	}
	var body userBody
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	if body.ID != "" && body.ID != id {
		return invalidScim("id in the body is not that of the address")
	}
	var deactivated bool
	u, err := s.store.UpdateUser(r.Context(), id, func(u *User) error {
		if err := matchVersion(r, u.Version); err != nil {
			return err
		}
		before := *u
		body.apply(u, all)
		if !admin {
			keepOwnLimits(u, &before)
		}
		deactivated = before.Active && !u.Active
		u.Version++
		u.Modified = s.now()
		return u.validate()
	})
	if err != nil {
		return userFault(err, id)
	}
	if deactivated {
		if err := s.revoked.all(r.Context(), RevokeUser, id); err != nil {
			return err
		}
	}
	return s.writeUser(w, r, http.StatusOK, u)
}

// keepOwnLimits undoes changes that users may not make to themselves.
func keepOwnLimits(u, before *User) {
	u.UserName, u.Email, u.Origin, u.ExternalID = before.UserName, before.Email, before.Origin, before.ExternalID
	u.Active, u.Verified = before.Active, before.Verified
}

func (s *Server) deleteUser(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	groups, err := s.store.GroupsOf(r.Context(), id)
	if err != nil {
		return err
	}
	u, err := s.store.DeleteUser(r.Context(), id)
	if err != nil {
		return userFault(err, id)
	}
	if err := s.revoked.all(r.Context(), RevokeUser, id); err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "user deleted", "user", id)
	return web.Answer(w, http.StatusOK, u.body(groups), nil)
}

// changePassword is PUT /Users/{id}/password. Users have to give the old
// password. It revokes all tokens of the user.
func (s *Server) changePassword(w http.ResponseWriter, r *http.Request) error {
	ctx, id := r.Context(), web.Param(r, "id")
	self := isSelf(r)
	if !self && !may(r, "uaa.admin") {
		return web.Insufficient("uaa.admin")
	}
	var body struct {
		Old string `json:"oldPassword"`
		New string `json:"password"`
	}
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	if err := checkPassword(body.New); err != nil {
		return err
	}
	u, err := s.store.User(ctx, id)
	if err != nil {
		return userFault(err, id)
	}
	if u.Origin != OriginUAA {
		return invalidScim("The password of a user of origin %q is not stored here.", u.Origin)
	}
	if self {
		ok, err := s.guard.prove(ctx, userSubject(u), s.from(r), body.Old)
		if err != nil {
			return err
		}
		if !ok {
			return fault.New(fault.Unauthenticated, "Old password is incorrect").WithKind("unauthorized")
		}
		if body.New == body.Old {
			return fault.New(fault.Unprocessable, "Your new password cannot be the same as the old password.").
				WithKind("invalid_password")
		}
	}
	hash, err := s.hash.hash(ctx, body.New)
	if err != nil {
		return err
	}
	was := u.PasswordHash
	_, err = s.store.UpdateUser(ctx, id, func(u *User) error {
		// Of two concurrent changes the second must not overwrite the first.
		if u.PasswordHash != was {
			return fault.New(fault.Conflict, "The password was changed by another request at the same time.").
				WithKind("scim_resource_conflict")
		}
		u.PasswordHash, u.PasswordChanged, u.Modified = hash, s.now(), s.now()
		u.Version++
		return nil
	})
	if err != nil {
		return userFault(err, id)
	}
	if err := s.guard.reset(ctx, userSubject(u)); err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, map[string]string{"status": "ok", "message": "password updated"},
		s.revoked.all(ctx, RevokeUser, id))
}

// userStatus is GET /Users/{id}/status: whether the user is locked out.
func (s *Server) userStatus(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	u, err := s.store.User(r.Context(), id)
	if err != nil {
		return userFault(err, id)
	}
	locked, err := s.guard.lockedAnywhere(r.Context(), userSubject(u))
	return web.Answer(w, http.StatusOK, map[string]any{"locked": locked, "passwordChangeRequired": false}, err)
}

// setUserStatus is PATCH /Users/{id}/status: it unlocks the user.
func (s *Server) setUserStatus(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	var body struct {
		Locked *bool `json:"locked"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Locked == nil || *body.Locked {
		return invalidScim("Cannot set user account to locked. User accounts only become locked through exceeding the " +
			"allowed failed login attempts.")
	}
	u, err := s.store.User(r.Context(), id)
	if err != nil {
		return userFault(err, id)
	}
	return web.Answer(w, http.StatusOK, map[string]bool{"locked": false}, s.guard.reset(r.Context(), userSubject(u)))
}
