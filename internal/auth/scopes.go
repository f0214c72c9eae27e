package auth

import (
	"path"
	"slices"
	"strings"

	"ingot/internal/base/fault"
)

// defaultGroups are the scopes every user has without being a member.
var defaultGroups = []string{
	"approvals.me", "cloud_controller.read", "cloud_controller.write", "cloud_controller_service_permissions.read",
	"notification_preferences.read", "notification_preferences.write", "oauth.approvals", "openid",
	"password.write", "profile", "roles", "scim.me", "scim.userids", "uaa.offline_token", "uaa.user", "user_attributes",
}

// adminGroups are the scopes of the first user.
var adminGroups = []string{
	"clients.admin", "clients.read", "clients.secret", "clients.write", "cloud_controller.admin",
	"critical_notifications.write", "doppler.firehose", "emails.write", "network.admin", "network.write",
	"notification_preferences.admin",
	"notification_templates.read", "notification_templates.write", "notifications.admin", "notifications.manage",
	"notifications.write",
	"routing.router_groups.read", "routing.router_groups.write", "scim.create", "scim.invite", "scim.read", "scim.write",
	"uaa.admin",
}

// otherGroups exist so that administrators can put users into them.
var otherGroups = []string{
	"cloud_controller.admin_read_only", "cloud_controller.global_auditor", "uaa.none", "uaa.resource",
}

// validScope accepts RFC 6749's scope characters.
func validScope(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c == '"' || c == '\\' || c > '~' || c == ',' {
			return false
		}
	}
	return true
}

// grantable reports whether one of the client's scope patterns covers scope.
// A star stands for one part of a dotted name, as in UAA.
func grantable(patterns []string, scope string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if p == scope {
			return p != "uaa.none"
		}
		if !strings.Contains(p, "*") {
			return false
		}
		ok, err := path.Match(strings.ReplaceAll(p, ".", "/"), strings.ReplaceAll(scope, ".", "/"))
		return err == nil && ok
	})
}

// clientScopes returns the scopes of a client's own token: those it requests, or
// all its authorities if it requests none. Requesting a scope that it does not
// have is an error.
func clientScopes(c *Client, requested []string) ([]string, error) {
	have := slices.DeleteFunc(slices.Clone(c.Authorities), func(s string) bool { return s == "uaa.none" })
	if len(requested) == 0 {
		return have, nil
	}
	return pick(requested, func(s string) bool { return slices.Contains(have, s) })
}

// userScopes returns the scopes a client gets on behalf of a user: those the
// client may request and the user has.
func userScopes(c *Client, userGroups, requested []string) ([]string, error) {
	if len(requested) > 0 {
		if _, err := pick(requested, func(s string) bool { return grantable(c.Scopes, s) }); err != nil {
			return nil, err
		}
	}
	granted := []string{}
	for _, g := range unique(userGroups) {
		if grantable(c.Scopes, g) && (len(requested) == 0 || slices.Contains(requested, g)) {
			granted = append(granted, g)
		}
	}
	if len(granted) == 0 {
		return nil, invalidScope("[%s] is invalid. This user is not allowed any of the requested scopes",
			strings.Join(requested, ", "))
	}
	slices.Sort(granted)
	return granted, nil
}

func pick(requested []string, ok func(string) bool) ([]string, error) {
	var bad []string
	for _, s := range requested {
		if !ok(s) {
			bad = append(bad, s)
		}
	}
	if len(bad) > 0 {
		return nil, invalidScope("[%s] is invalid. Please use a valid scope name in the request", strings.Join(bad, ", "))
	}
	return unique(requested), nil
}

func invalidScope(format string, args ...any) error {
	return fault.New(fault.BadRequest, format, args...).WithKind("invalid_scope")
}

// audience derives the services a token is meant for from its scopes: the part
// before the last dot, and the client itself.
func audience(c *Client, scopes []string) []string {
	aud := slices.Clone(c.ResourceIDs)
	for _, s := range scopes {
		if i := strings.LastIndexByte(s, '.'); i > 0 {
			aud = append(aud, s[:i])
		} else {
			aud = append(aud, s)
		}
	}
	aud = unique(append(aud, c.ID))
	slices.Sort(aud)
	return aud
}
