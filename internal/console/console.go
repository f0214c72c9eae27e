package console

import (
	"sync"

	"ingot/internal/base/prefer"
	"ingot/internal/console/access"
	"ingot/internal/console/apps"
	"ingot/internal/console/audit"
	"ingot/internal/console/docs"
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

// chapters are the documents that explain pages, by the names of their templates: what "Docs" leads to. A page
// without one leads to that of the console.
var chapters = map[string]string{
	"home.html": "console", "search.html": "console", "error.html": "troubleshooting", "audit.html": "console",
	"apps.html": "console", "app.html": "troubleshooting#start", "logs.html": "logs#reading",
	"deployments.html": "revisions", "build.html": "troubleshooting#push-and-build",
	"environment.html": "revisions#environment-variables", "shell.html": "ssh",
	"routes.html": "routing#routes-and-destinations", "tasks.html": "console", "events.html": "console",
	"settings.html": "console",
	"manifest.html": "manifest", "applying.html": "manifest", "sidecars.html": "sidecars", "revision.html": "revisions",
	"task.html": "console", "domains.html": "routing",
	"newapp.html": "console#deploy-an-app", "deploying.html": "troubleshooting#push-and-build",
	"services.html": "services", "servicelist.html": "services", "service.html": "services",
	"credentials.html": "services", "marketplace.html": "operators#databases", "newservice.html": "operators#databases",
	"members.html": "operating#users", "org.html": "operators#quotas", "users.html": "operating#users",
	"user.html": "operating#users", "clients.html": "authorization#clients-keys-and-passwords",
	"client.html": "authorization#clients-keys-and-passwords", "secret.html": "authorization#clients-keys-and-passwords",
	"system.html": "monitoring#health", "system-history.html": "history#the-platform",
	"kinds.html": "notifications#send-your-first-mail", "kind.html": "notifications-workflows",
	"templates.html":         "notifications-templates#personal-data",
	"template.html":          "notifications-templates#personal-data",
	"providers.html":         "notifications-sms",
	"provider.html":          "notifications-sms#the-definition",
	"topics.html":            "notifications-topics",
	"topic.html":             "notifications-topics",
	"partials.html":          "notifications-templates#layouts-and-partials",
	"partial.html":           "notifications-templates#layouts-and-partials",
	"template-versions.html": "notifications-templates#versions-of-a-template",
	"template-version.html":  "notifications-templates#versions-of-a-template",
	"send.html":              "notifications-reference#sending",
	"review.html":            "notifications-reference#sending", "sends.html": "notifications-reference#sending",
	"sent.html":    "notifications-reference#sending",
	"message.html": "notifications-reference#delivery", "campaigns.html": "notifications-reference#sending",
	"recurring.html": "notifications-timing",
	"figures.html":   "notifications-figures",
	"mailbox.html":   "notifications-operating#flags", "mail.html": "notifications-operating#flags",
	"recipients.html":   "notifications-recipients#erase-a-recipients-data",
	"suppressions.html": "notifications-reference#delivery", "preferences.html": "notifications-preferences",
}

// templates are the templates of all parts. They are read when the first console is created, because the
// client, which is the same program, needs none.
var templates = sync.OnceValue(func() *page.Templates {
	return page.Load(
		apps.Files, // first: other parts use its functions
		home.Files, services.Files, notifications.Files, access.Files, audit.Files, system.Files, docs.Files,
		page.Files{FS: prefer.Files},
	)
})

// New returns a console with all parts.
func New(o Options) *page.Console {
	c := page.New(o, templates(), sections)
	c.Chapters = chapters
	c.Add(home.New(c), apps.New(c), services.New(c), notifications.New(c), access.New(c), audit.New(c), system.New(c),
		docs.New(c))
	return c
}
