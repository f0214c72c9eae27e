package authdb

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/auth"
	"ingot/internal/base/db"
)

const (
	groupColumns = "id, name, description, created_at, modified_at, version"
	// groupKey is written with groupColumns and never read.
	groupKey = "name_key"

	memberColumns = "group_id, member_id, member_type, origin"
)

// chunk is the maximum of rows or ids in one statement.
const chunk = 500

var groups = listing[*auth.Group]{
	table:   "auth_groups",
	columns: groupColumns,
	scan:    scanGroup,
	attrs: attributes{
		"id":                {"id", exact},
		"displayname":       {"name_key", folded},
		"description":       {"description", exact},
		"meta.created":      {"created_at", instant},
		"created":           {"created_at", instant},
		"meta.lastmodified": {"modified_at", instant},
		"lastmodified":      {"modified_at", instant},
	},
}

func scanGroup(s db.Scanner) (*auth.Group, error) {
	var g auth.Group
	err := s.Scan(&g.ID, &g.Name, text{&g.Description}, moment{&g.Created}, moment{&g.Modified}, &g.Version)
	return &g, err
}

func groupValues(g *auth.Group) []any {
	return []any{
		g.ID, g.Name, orNull(g.Description), db.Nanos(g.Created), db.Nanos(g.Modified), g.Version,
		lower(g.Name),
	}
}

func group(tx *db.Tx, id string) (*auth.Group, error) {
	g, err := one(tx, scanGroup, "SELECT "+groupColumns+" FROM auth_groups WHERE id = ?", id)
	if err != nil {
		return nil, err
	}
	return g, readMembers(tx, []*auth.Group{g})
}

// membership is a row of auth_members.
type membership struct {
	group string
	auth.Member
}

func scanMembership(s db.Scanner) (m membership, err error) {
	err = s.Scan(&m.group, &m.ID, &m.Type, &m.Origin)
	return m, err
}

// readMembers fills in the members of groups.
func readMembers(tx *db.Tx, groups []*auth.Group) error {
	byID := make(map[string]*auth.Group, len(groups))
	ids := make([]any, len(groups))
	for i, g := range groups {
		byID[g.ID], ids[i] = g, g.ID
	}
	for part := range slices.Chunk(ids, chunk) {
		members, err := db.All(tx, scanMembership, "SELECT "+memberColumns+" FROM auth_members WHERE group_id IN ("+
			marks(len(part))+") ORDER BY group_id, member_id", part...)
		if err != nil {
			return err
		}
		for _, m := range members {
			byID[m.group].Members = append(byID[m.group].Members, m.Member)
		}
	}
	return nil
}

// replaceMembers sets a group's members to want. It writes only the differences:
// a group may have very many members.
func replaceMembers(tx *db.Tx, groupID string, have, want []auth.Member) error {
	had := make(map[string]auth.Member, len(have))
	for _, m := range have {
		had[m.ID] = m
	}
	var put []any
	seen := make(map[string]bool, len(want))
	for _, m := range want {
		if seen[m.ID] {
			continue // a group is a set
		}
		seen[m.ID] = true
		if old, ok := had[m.ID]; !ok || old != m {
			put = append(put, groupID, m.ID, string(m.Type), m.Origin)
		}
	}
	var gone []any
	for _, m := range have {
		if !seen[m.ID] {
			gone = append(gone, m.ID)
		}
	}
	for part := range slices.Chunk(gone, chunk) {
		_, err := tx.Exec("DELETE FROM auth_members WHERE group_id = ? AND member_id IN ("+marks(len(part))+")",
			append([]any{groupID}, part...)...)
		if err != nil {
			return err
		}
	}
	for part := range slices.Chunk(put, 4*chunk) {
		_, err := tx.Exec("INSERT INTO auth_members ("+memberColumns+") VALUES "+
			strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?), ", len(part)/4), ", ")+
			" ON CONFLICT (group_id, member_id) DO UPDATE SET member_type = excluded.member_type, origin = excluded.origin",
			part...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Group implements auth.Store.
func (s *Store) Group(ctx context.Context, id string) (*auth.Group, error) {
	return view(ctx, s, func(tx *db.Tx) (*auth.Group, error) { return group(tx, id) })
}

// Groups implements auth.Store.
func (s *Store) Groups(ctx context.Context, q auth.Query) (page []*auth.Group, total int, err error) {
	err = s.db.View(ctx, func(tx *db.Tx) (err error) {
		if page, total, err = groups.page(tx, q); err != nil {
			return err
		}
		return readMembers(tx, page)
	})
	if err != nil {
		return nil, 0, err
	}
	return page, total, nil
}

// CreateGroup implements auth.Store. The id and the name must not exist yet.
func (s *Store) CreateGroup(ctx context.Context, g *auth.Group) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(insert("auth_groups", groupColumns+", "+groupKey), groupValues(g)...); err != nil {
			return err
		}
		return replaceMembers(tx, g.ID, nil, g.Members)
	})
}

// UpdateGroup implements auth.Store. The id cannot be changed.
func (s *Store) UpdateGroup(ctx context.Context, id string, change func(*auth.Group) error) (*auth.Group, error) {
	return update(ctx, s, func(tx *db.Tx) (*auth.Group, error) {
		g, err := group(tx, id)
		if err != nil {
			return nil, err
		}
		before := slices.Clone(g.Members)
		if err := change(g); err != nil {
			return nil, err
		}
		g.ID = id
		_, err = tx.Exec("UPDATE auth_groups SET "+set(groupColumns+", "+groupKey)+" WHERE id = ?",
			append(groupValues(g), id)...)
		if err != nil {
			return nil, err
		}
		return g, replaceMembers(tx, id, before, g.Members)
	})
}

// DeleteGroup implements auth.Store. The group is also removed from the groups
// it is a member of.
func (s *Store) DeleteGroup(ctx context.Context, id string) (*auth.Group, error) {
	return update(ctx, s, func(tx *db.Tx) (*auth.Group, error) {
		g, err := group(tx, id)
		if err != nil {
			return nil, err
		}
		return g, exec(tx, id,
			"DELETE FROM auth_members WHERE group_id = ?",
			"DELETE FROM auth_members WHERE member_id = ?",
			"DELETE FROM auth_groups WHERE id = ?")
	})
}

// AddMember implements auth.Store.
func (s *Store) AddMember(ctx context.Context, groupID string, m auth.Member) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if err := mustExist(tx, "auth_groups", groupID); err != nil {
			return err
		}
		_, err := tx.Exec(insert("auth_members", memberColumns), groupID, m.ID, string(m.Type), m.Origin)
		return err
	})
}

// RemoveMember implements auth.Store.
func (s *Store) RemoveMember(ctx context.Context, groupID, memberID string) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if _, err := one(tx, scanMembership, "SELECT "+memberColumns+
			" FROM auth_members WHERE group_id = ? AND member_id = ?",
			groupID, memberID); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM auth_members WHERE group_id = ? AND member_id = ?", groupID, memberID)
		return err
	})
}

// GroupsOf implements auth.Store.
func (s *Store) GroupsOf(ctx context.Context, memberID string) ([]*auth.Group, error) {
	all, err := s.GroupsOfAll(ctx, []string{memberID})
	return all[memberID], err
}

// GroupsOfAll implements auth.Store. Members of no group are not in the map;
// groups are sorted by name.
func (s *Store) GroupsOfAll(ctx context.Context, memberIDs []string) (map[string][]*auth.Group, error) {
	ids := make([]any, 0, len(memberIDs))
	for _, id := range slices.Compact(slices.Sorted(slices.Values(memberIDs))) {
		if storable(id) {
			ids = append(ids, id)
		}
	}
	return view(ctx, s, func(tx *db.Tx) (map[string][]*auth.Group, error) {
		all := make(map[string][]*auth.Group)
		for part := range slices.Chunk(ids, chunk) {
			found, err := db.All(tx, scanGroupOf, groupsOf(len(part)), part...)
			if err != nil {
				return nil, err
			}
			for _, f := range found {
				all[f.member] = append(all[f.member], f.group)
			}
		}
		return all, nil
	})
}

// groupsOf is a query for all groups that contain n members, directly or not.
// UNION drops duplicates, so it terminates even if groups contain each other.
func groupsOf(n int) string {
	return `WITH RECURSIVE above (member_id, group_id) AS (
			SELECT member_id, group_id FROM auth_members WHERE member_id IN (` + marks(n) + `)
			UNION
			SELECT above.member_id, m.group_id FROM above
			JOIN auth_members m ON m.member_id = above.group_id AND m.member_type = 'GROUP'
		)
		SELECT above.member_id, g.id, g.name FROM above JOIN auth_groups g ON g.id = above.group_id
		ORDER BY above.member_id, g.name, g.id`
}

type groupOf struct {
	member string
	group  *auth.Group
}

func scanGroupOf(s db.Scanner) (groupOf, error) {
	f := groupOf{group: new(auth.Group)}
	err := s.Scan(&f.member, &f.group.ID, &f.group.Name)
	return f, err
}
