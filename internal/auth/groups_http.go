package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

func etag(version int) string { return strconv.Quote(strconv.Itoa(version)) }

type groupBody struct {
	ID          string       `json:"id"`
	Name        *string      `json:"displayName"`
	Description *string      `json:"description"`
	Members     []memberBody `json:"members"`
}

type memberBody struct {
	Value     string `json:"value"`
	Type      string `json:"type"`
	Origin    string `json:"origin"`
	Operation string `json:"operation"` // of a PATCH: "delete"
}

func (b memberBody) member() (Member, error) {
	m := Member{ID: b.Value, Type: MemberType(strings.ToUpper(b.Type)), Origin: b.Origin}
	if m.Type == "" {
		m.Type = MemberUser
	}
	if m.Origin == "" {
		m.Origin = OriginUAA
	}
	if m.ID == "" || m.Type != MemberUser && m.Type != MemberGroup {
		return m, invalidScim("A member needs a value, the id of a user or group, and the type USER or GROUP.")
	}
	return m, nil
}

func groupNotFound(id string) error {
	return fault.New(fault.NotFound, "Group %s does not exist", id).WithKind("scim_resource_not_found")
}

func (m Member) body() map[string]string {
	return map[string]string{"value": m.ID, "type": string(m.Type), "origin": m.Origin}
}

func (g *Group) body() map[string]any {
	members := make([]map[string]string, 0, len(g.Members))
	for _, m := range g.Members {
		members = append(members, m.body())
	}
	return map[string]any{
		"id": g.ID, "displayName": g.Name, "description": g.Description, "members": members, "zoneId": ZoneID,
		"meta": scimMeta(g.Version, g.Created, g.Modified), "schemas": []string{"urn:scim:schemas:core:1.0"},
	}
}

func (g *Group) validate() error {
	if !validScope(g.Name) {
		return invalidScim("displayName must be 1 to 255 printable characters without spaces, commas or quotes: it is the " +
			"name of a scope.")
	}
	return nil
}

// checkMembers returns an error for members that do not exist.
func (s *Server) checkMembers(ctx context.Context, members []Member) error {
	for _, m := range members {
		var err error
		if m.Type == MemberGroup {
			_, err = s.store.Group(ctx, m.ID)
		} else {
			_, err = s.store.User(ctx, m.ID)
		}
		if errors.Is(err, ErrNotFound) {
			return invalidScim("No %s with the id %s exists.", strings.ToLower(string(m.Type)), m.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readMembers(in []memberBody) ([]Member, error) {
	out := make([]Member, 0, len(in))
	for _, b := range in {
		m, err := b.member()
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func (s *Server) listGroups(w http.ResponseWriter, r *http.Request) error {
	return list(w, r, s.store.Groups, (*Group).body)
}

// listExternalGroups answers with no mapping between groups and those of an identity
// provider (LDAP, SAML): this server has no such provider, and refuses to map.
func (s *Server) listExternalGroups(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	writeList(w, r, q, 0, []map[string]any{})
	return nil
}

func (s *Server) mapExternalGroup(http.ResponseWriter, *http.Request) error {
	return invalidScim("External groups belong to an identity provider, and this authorization server has none. Use " +
		"another one with --auth-url.")
}

func (s *Server) writeGroup(w http.ResponseWriter, status int, g *Group) error {
	w.Header().Set("ETag", etag(g.Version))
	return web.Answer(w, status, g.body(), nil)
}

func (s *Server) createGroup(w http.ResponseWriter, r *http.Request) error {
	var body groupBody
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	members, err := readMembers(body.Members)
	if err != nil {
		return err
	}
	now := s.now()
	g := &Group{ID: newID(), Members: members, Created: now, Modified: now}
	body.apply(g)
	if err := errors.Join(g.validate(), s.checkMembers(r.Context(), members)); err != nil {
		return err
	}
	if err := groupFault(g, s.store.CreateGroup(r.Context(), g)); err != nil {
		return err
	}
	return s.writeGroup(w, http.StatusCreated, g)
}

func (b *groupBody) apply(g *Group) {
	web.Set(&g.Name, b.Name)
	web.Set(&g.Description, b.Description)
}

func groupFault(g *Group, err error) error {
	switch {
	case errors.Is(err, ErrConflict):
		return fault.New(fault.Conflict, "A group with displayName: %s already exists.", g.Name).
			WithKind("scim_resource_already_exists")
	case errors.Is(err, ErrNotFound):
		return groupNotFound(g.ID)
	}
	return err
}

func (s *Server) group(r *http.Request, id string) (*Group, error) {
	g, err := s.store.Group(r.Context(), id)
	return g, groupFault(&Group{ID: id}, err)
}

func (s *Server) getGroup(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	g, err := s.group(r, id)
	if err != nil {
		return err
	}
	return s.writeGroup(w, http.StatusOK, g)
}

// updateGroup is PUT: it replaces the members.
func (s *Server) updateGroup(w http.ResponseWriter, r *http.Request) error {
	return s.changeGroup(w, r, func(g *Group, _ []memberBody, members []Member) { g.Members = members })
}

// patchGroup is PATCH: it adds the members of the body, or removes those marked
// for deletion.
func (s *Server) patchGroup(w http.ResponseWriter, r *http.Request) error {
	return s.changeGroup(w, r, func(g *Group, bodies []memberBody, members []Member) {
		for i, m := range members {
			g.remove(m.ID)
			if !strings.EqualFold(bodies[i].Operation, "delete") {
				g.Members = append(g.Members, m)
			}
		}
	})
}

func (g *Group) remove(memberID string) {
	kept := g.Members[:0]
	for _, m := range g.Members {
		if m.ID != memberID {
			kept = append(kept, m)
		}
	}
	g.Members = kept
}

func (s *Server) changeGroup(w http.ResponseWriter, r *http.Request, setMembers func(*Group, []memberBody,
	[]Member)) error {
	id := web.Param(r, "id")
	var body groupBody
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	members, err := readMembers(body.Members)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.ID == id {
			return invalidScim("A group cannot be its own member.")
		}
	}
	if err := s.checkMembers(r.Context(), members); err != nil {
		return err
	}
	var changed *Group
	g, err := s.store.UpdateGroup(r.Context(), id, func(g *Group) error {
		if err := matchVersion(r, g.Version); err != nil {
			return err
		}
		body.apply(g)
		setMembers(g, body.Members, members)
		g.Version++
		g.Modified = s.now()
		changed = g
		return g.validate()
	})
	if changed == nil {
		changed = &Group{ID: id}
	}
	if err := groupFault(changed, err); err != nil {
		return err
	}
	return s.writeGroup(w, http.StatusOK, g)
}

func (s *Server) deleteGroup(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	g, err := s.store.DeleteGroup(r.Context(), id)
	if err := groupFault(&Group{ID: id}, err); err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, g.body(), nil)
}

func (s *Server) listMembers(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	g, err := s.group(r, id)
	if err != nil {
		return err
	}
	out := make([]map[string]string, 0, len(g.Members))
	for _, m := range g.Members {
		out = append(out, m.body())
	}
	return web.Answer(w, http.StatusOK, out, nil)
}

func (s *Server) addMember(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	var body memberBody
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	m, err := body.member()
	if err != nil {
		return err
	}
	if m.ID == id {
		return invalidScim("A group cannot be its own member.")
	}
	if err := s.checkMembers(r.Context(), []Member{m}); err != nil {
		return err
	}
	err = s.store.AddMember(r.Context(), id, m)
	switch {
	case errors.Is(err, ErrNotFound):
		return groupNotFound(id)
	case errors.Is(err, ErrConflict):
		return fault.New(fault.Conflict, "%s is already a member.", m.ID).WithKind("member_already_exists")
	case err != nil:
		return err
	}
	return web.Answer(w, http.StatusCreated, m.body(), nil)
}

func (s *Server) getMember(w http.ResponseWriter, r *http.Request) error {
	id, member := web.Param(r, "id"), web.Param(r, "member")
	g, err := s.group(r, id)
	if err != nil {
		return err
	}
	for _, m := range g.Members {
		if m.ID == member {
			return web.Answer(w, http.StatusOK, m.body(), nil)
		}
	}
	return memberNotFound(id, member)
}

func (s *Server) removeMember(w http.ResponseWriter, r *http.Request) error {
	id, member := web.Param(r, "id"), web.Param(r, "member")
	err := s.store.RemoveMember(r.Context(), id, member)
	if errors.Is(err, ErrNotFound) {
		return memberNotFound(id, member)
	}
	if err != nil {
		return fmt.Errorf("remove a member: %w", err)
	}
	return web.Answer(w, http.StatusOK, map[string]string{"value": member}, nil)
}

func memberNotFound(group, member string) error {
	return fault.New(fault.NotFound, "Member %s does not exist in group %s", member, group).WithKind("member_not_found")
}
