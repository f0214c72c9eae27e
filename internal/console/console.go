package console

import (
	"sync"

	"ingot/internal/console/access"
	"ingot/internal/console/apps"
	"ingot/internal/console/audit"
	"ingot/internal/console/home"
	"ingot/internal/console/notifications"
	"ingot/internal/console/page"
	"ingot/internal/console/services"
	"ingot/internal/console/system"
)

const (
	// Path is where the console begins, on the origin of the platform API.
	Path = page.Path
	// CallbackPath is the redirect URI of the console's client, without the origin.
	CallbackPath = page.CallbackPath
)

// Options are what the console needs.
type Options = page.Options

// sections are the navigation.
var sections = []page.Section{
	{Key: "home", Name: "Home", Link: Path},
	{Key: "apps", Name: "Apps", Link: Path + "/apps"},
	{Key: "services", Name: "Services", Link: Path + "/services"},
	{Key: "notifications", Name: "Notifications", Link: Path + "/notifications", Scopes: notifications.Scopes},
	{Key: "members", Name: "Members", Link: Path + "/members"},
	{Key: "audit", Name: "Audit", Link: Path + "/audit"},
	{Key: "users", Name: "Users", Link: Path + "/users", Scopes: access.UserScopes},
	{Key: "clients", Name: "Clients", Link: Path + "/clients", Scopes: access.ClientScopes},
	{Key: "system", Name: "System", Link: Path + "/system", Scopes: system.Scopes},
}

// templates are the templates of all parts. They are read when the first console is created, because the
// client, which is the same program, needs none.
var templates = sync.OnceValue(func() *page.Templates {
	return page.Load(
		home.Files, apps.Files, services.Files, notifications.Files, access.Files, audit.Files, system.Files,
	)
})

// New returns a console with all parts.
func New(o Options) *page.Console {
	c := page.New(o, templates(), sections)
	c.Add(home.New(c), apps.New(c), services.New(c), notifications.New(c), access.New(c), audit.New(c), system.New(c))
	return c
}
