package notifications

import (
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

// Scopes of the notification service.
const (
	scopeNotifyAdmin    = "notifications.admin"
	scopeNotifyManage   = "notifications.manage"
	scopeNotifyWrite    = "notifications.write"
	scopeEmailsWrite    = "emails.write"
	scopeCritical       = "critical_notifications.write"
	scopeTemplatesRead  = "notification_templates.read"
	scopeTemplatesWrite = "notification_templates.write"
)

// Scopes are the scopes that open the section; one of them is enough.
var Scopes = []string{scopeNotifyManage, scopeTemplatesRead, scopeNotifyWrite, scopeNotifyAdmin}

//go:embed pages/*.html assets/*
var files embed.FS

// Files are the templates of the notification service, and the editor of mail templates.
var Files = page.Files{FS: files, Functions: template.FuncMap{
	"to":       send.to,
	"happened": event.words,
	// mark is what a line of a difference begins with.
	"mark": func(line string) string { return line[:min(1, len(line))] },
	"problems": func(part string, all map[string][]templateProblem) partProblems {
		return partProblems{part, all[part]}
	},
}}

// pages serves the pages of the notification service.
type pages struct{ *page.Console }

// New returns the pages of the notification service.
func New(core *page.Console) page.Part {
	c := pages{core}
	return page.Part{
		Pages: map[string]page.Handler{
			"/notifications": c.kinds,
			"/notifications/clients/{client}/kinds/{kind}":           c.kind,
			"/notifications/templates/new":                           c.newTemplate,
			"/notifications/templates/{template}":                    c.template,
			"/notifications/templates/{template}/versions":           c.versions,
			"/notifications/templates/{template}/versions/{version}": c.version,
			"/notifications/new-provider":                            c.newProvider,
			"/notifications/providers/{provider}":                    c.provider,
			"/notifications/topics/{topic}":                          c.topic,
			"/notifications/new-partial":                             c.newPartial,
			"/notifications/partials/{partial}":                      c.partial,
			"/notifications/send":                                    c.newSend,
			"/notifications/sends/{send}":                            c.send,
			"/notifications/messages/{message}":                      c.message,
			"/notifications/mailbox/{number}":                        c.mail,
			"/notifications/mailbox/{number}/html":                   c.mailHTML,
			"/notifications/mailbox/{number}/source":                 c.mailSource,
		},
		Screens: map[string]page.Screen{
			"/notifications/templates": tab("Templates", "templates.html", c.templates),
			"/notifications/partials":  tab("Partials", "partials.html", c.partials),
			"/notifications/sends": tab("Sends", "sends.html", c.loadSends).AsLive("notifications/sends",
				func(r *http.Request, _ any) (string, bool) { return "", r.URL.RawQuery == "" }),
			"/notifications/providers": tab("Providers", "providers.html", c.providers).AsLive("notifications/providers", nil),
			"/notifications/topics":    tab("Topics", "topics.html", c.topics),
			"/notifications/recurring": tab("Recurring", "recurring.html", c.recurring),
			"/notifications/figures":   tab("Figures", "figures.html", c.figures),
			"/notifications/mailbox": tab("Mailbox", "mailbox.html", c.loadMailbox).AsLive("notifications/mailbox",
				liveMailbox),
			"/notifications/suppressions": tab("Suppressions", "suppressions.html", c.suppressions),
			"/notifications/recipients":   tab("Recipients", "recipients.html", c.recipient),
			"/notifications/campaigns":    tab("Campaigns", "campaigns.html", c.campaigns),
			"/preferences": {
				Title: preferencesTitle, Template: "preferences.html", Load: c.preferences,
			},
		},
		Changes: c.changes(),
		Large: map[string]page.Handler{
			"/notifications/templates/save":            c.saveTemplate,
			"/notifications/templates/{template}/save": c.saveTemplate,
			"/notifications/partials/save":             c.savePartial,
			"/notifications/partials/{partial}/save":   c.savePartial,
			"/notifications/templates/preview":         c.previewTemplate,
			"/notifications/templates/check":           c.checkTemplate,
			"/notifications/send/check":                c.reviewSend,
			"/notifications/send/edit":                 c.editSend,
			"/notifications/send/deliver":              c.deliver,
		},
		Said: map[string]string{
			"template":         "The template was saved.",
			"template-test":    "The template was saved, and a test is on its way to you.",
			"template-deleted": "The template was deleted. What used it uses the default template now.",
			"partial":          "The partial was saved. Sends that are accepted from now on use it.",
			"partial-deleted":  "The partial was deleted.",
			"provider":         "The provider was saved.",
			"provider-deleted": "The provider was deleted.",
			"topic":            "The topic was saved.", "topic-deleted": "The topic was deleted.",
			"subscribed":         "Subscribed.",
			"subscribed-before":  "They were subscribed already.",
			"removed-subscriber": "They were removed, and may be subscribed again.",
			"browser-removed":    "It gets no more push notifications.",
			"rolled-back":        "The template was rolled back. That is its newest version.",
			"assigned":           "The template was assigned.", "kind": "The kind was registered.",
			"kind-test": "A test is on its way to you.",
			"paused":    "The recurring send is paused.", "resumed": "The recurring send is active again.",
			"recurring-deleted": "The recurring send was deleted.",
			"retry":             "It is being sent again.", "campaigns": "The senders and campaign types were changed.",
			"cleared": "The mailbox was cleared.", "suppressed": "Nothing is sent to this address any more.",
			"erased":       "Everything that was stored about the recipient was erased.",
			"erasing":      "The recipient's data is being erased; messages that are being delivered follow.",
			"unsuppressed": "Mail is sent to this address again.", "preferences": "Your preferences were saved.",
		},
		Live: c.view,
	}
}

// changes are the targets of the section's forms.
func (c pages) changes() map[string]page.Handler {
	service := page.API(c.Notifications)
	campaigns := func(method, path string, body func(url.Values) (any, error)) page.Handler {
		return service.Edit(page.Edit{
			Method: method, Path: path, Header: secondVersion, Body: body, To: "/notifications/campaigns", Said: "campaigns",
		})
	}
	return map[string]page.Handler{
		"/notifications/kinds": c.registerKind,
		"/notifications/clients/{client}/template": service.Edit(page.Edit{
			Method: http.MethodPut, Path: "/clients/{client}/template", Body: assigned, To: "/notifications", Said: "assigned",
		}),
		"/notifications/clients/{client}/kinds/{kind}/template": service.Edit(page.Edit{
			Method: http.MethodPut, Path: "/clients/{client}/notifications/{kind}/template", Body: assigned,
			To: "/notifications", Said: "assigned",
		}),
		"/notifications/clients/{client}/kinds/{kind}/test": service.Edit(page.Edit{
			Method: http.MethodPost, Path: "/clients/{client}/notifications/{kind}/test",
			To: "/notifications", Said: "kind-test",
		}),
		"/notifications/sends/{send}/retry": c.retrySend,
		"/notifications/messages/{message}/retry": service.Edit(page.Edit{
			Method: http.MethodPost, Path: "/messages/{message}/replay",
			To: "/notifications/messages/{message}", Said: "retry",
		}),
		"/notifications/mailbox/clear": service.Edit(page.Edit{
			Method: http.MethodDelete, Path: "/mailbox/messages", To: "/notifications/mailbox", Said: "cleared",
		}),
		"/notifications/recipients/erase":                  c.eraseRecipient,
		"/notifications/recurring/pause":                   c.changeRecurring(http.MethodPost, "/pause", "paused"),
		"/notifications/recurring/resume":                  c.changeRecurring(http.MethodPost, "/resume", "resumed"),
		"/notifications/recurring/delete":                  c.changeRecurring(http.MethodDelete, "", "recurring-deleted"),
		"/notifications/suppressions/add":                  c.suppress,
		"/notifications/suppressions/remove":               c.unsuppress,
		"/notifications/campaigns/senders":                 campaigns(http.MethodPost, "/senders", senderOf),
		"/notifications/campaigns/senders/{sender}/delete": campaigns(http.MethodDelete, "/senders/{sender}", nil),
		"/notifications/campaigns/senders/{sender}/types": campaigns(http.MethodPost,
			"/senders/{sender}/campaign_types", typeOf),
		"/notifications/campaigns/types/{type}/delete": campaigns(http.MethodDelete, "/campaign_types/{type}", nil),
		"/notifications/campaigns/types/{type}/template": campaigns(http.MethodPut, "/campaign_types/{type}",
			templateOfType),
		"/preferences/save": c.savePreferences,
		"/preferences/browsers/{browser}/remove": service.Edit(page.Edit{
			Method: http.MethodDelete, Path: "/push_subscriptions/{browser}", To: "/preferences", Said: "browser-removed",
		}),
		"/notifications/providers/save":                c.saveProvider,
		"/notifications/providers/{provider}/save":     c.saveProvider,
		"/notifications/providers/{provider}/delete":   c.deleteProvider,
		"/notifications/topics":                        c.addTopic,
		"/notifications/topics/{topic}/change":         c.onTopic(c.changeTopic),
		"/notifications/topics/{topic}/delete":         c.onTopic(c.deleteTopic),
		"/notifications/topics/{topic}/subscribe":      c.onTopic(c.subscribe),
		"/notifications/topics/{topic}/remove":         c.onTopic(c.removeSubscriber),
		"/notifications/partials/{partial}/delete":     c.deletePartial,
		"/notifications/templates/{template}/delete":   c.deleteTemplate,
		"/notifications/templates/{template}/rollback": c.rollBack,
	}
}

// notificationsPage is the data of a page of the section.
type notificationsPage struct {
	Tabs []page.Tab
	More any
}

// providerScopes are those with which a client manages its providers, and topicScopes those with which it sees its
// topics.
var (
	providerScopes = []string{scopeNotifyManage, scopeNotifyWrite, scopeNotifyAdmin}
	topicScopes    = providerScopes
)

// notificationTabs are the pages of the section, with the scopes that open them.
var notificationTabs = []struct {
	name, path string
	scopes     []string
}{
	{"Kinds", "", []string{scopeNotifyManage}},
	{"Templates", "/templates", []string{scopeTemplatesRead}},
	{"Partials", "/partials", []string{scopeTemplatesRead}},
	{"Sends", "/sends", []string{scopeNotifyWrite, scopeEmailsWrite, scopeNotifyAdmin}},
	{"Recurring", "/recurring", []string{scopeNotifyWrite, scopeNotifyAdmin}},
	{"Figures", "/figures", []string{scopeNotifyWrite, scopeEmailsWrite, scopeNotifyManage, scopeNotifyAdmin}},
	{"Campaigns", "/campaigns", []string{scopeNotifyWrite}},
	{"Topics", "/topics", topicScopes},
	{"Providers", "/providers", providerScopes},
	{"Mailbox", "/mailbox", []string{scopeNotifyAdmin}},
	{"Suppressions", "/suppressions", []string{scopeNotifyAdmin}},
	{"Recipients", "/recipients", []string{scopeNotifyAdmin}},
}

const notificationsPath = page.Path + "/notifications"

// tabsOfNotifications returns the pages that the user may open.
func tabsOfNotifications(s *page.Session, current string) []page.Tab {
	var all []page.Tab
	for _, one := range notificationTabs {
		if s.Has(one.scopes...) {
			all = append(all, page.Tab{Name: one.name, Link: notificationsPath + one.path, Current: one.name == current})
		}
	}
	return all
}

// tab returns a page of the section that shows what it loads.
func tab(name, template string, load func(*http.Request, *page.Session) (any, error)) page.Screen {
	return page.Screen{
		Title: name, Section: "notifications", Template: template,
		Load: func(r *http.Request, s *page.Session) (any, error) {
			data, err := load(r, s)
			return notificationsPage{tabsOfNotifications(s, name), data}, err
		},
	}
}

// showNotifications shows a page of the section. Without a title, p gets the tab's.
func (c pages) showNotifications(w http.ResponseWriter, r *http.Request, s *page.Session, status int, name,
	current string, p page.Page) error {
	p.Section = "notifications"
	if p.Title == "" {
		p.Title = current
	} else {
		for _, t := range tabsOfNotifications(s, current) {
			if t.Current {
				p.Crumbs = append([]page.Crumb{{Name: t.Name, Link: t.Link}}, p.Crumbs...)
			}
		}
	}
	p.Data = notificationsPage{tabsOfNotifications(s, current), p.Data}
	return c.Show(w, r, s, status, name, p)
}

// toNotifications sends the browser to a page of the section, which says what was done.
func toNotifications(w http.ResponseWriter, r *http.Request, path, said string) error {
	return page.GoTo(w, r, "/notifications"+path, said)
}

// view returns the live part of a page of the section, or nil.
func (c pages) view(r *http.Request, s *page.Session, name string) *page.View {
	name, ok := strings.CutPrefix(name, "notifications/")
	if !ok {
		return nil
	}
	of := func(d any, err error) (any, error) { return notificationsPage{More: d}, err }
	section, id, _ := strings.Cut(name, "/")
	switch {
	case section == "sends" && id != "":
		return &page.View{Fragment: "sent-live", Load: func() (any, error) { return of(c.loadSend(r, s, id)) }}
	case section == "messages" && id != "":
		return &page.View{Fragment: "message-live", Load: func() (any, error) { return of(c.loadMessage(r, s, id)) }}
	}
	return nil
}

// framePolicy is for documents in a frame, which contain what others wrote: they have an origin of
// their own, run no scripts, and load nothing. Links open a new window, because the frame cannot
// navigate the page.
const framePolicy = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src " +
	"'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// writeFrame writes a document for a frame. With dark, the browser's own colors are dark, as in a
// mail program in dark mode.
func writeFrame(w http.ResponseWriter, r *http.Request, dark bool, html []byte) {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", framePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	head := `<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="` + scheme + `"><base target="_blank">`
	page.WriteZipped(w, r, http.StatusOK, append([]byte(head), html...), nil)
}

// unix returns the text of a form's field with line breaks as templates have them: browsers send
// CR LF.
func unix(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// forUsers returns the text of an error that a form can show. Others get their own page: a
// failure, or a session that has ended.
func forUsers(err error) (string, bool) {
	var e *fault.Error
	if !errors.As(err, &e) || e.Code == fault.Internal || e.Code == fault.Unauthenticated {
		return "", false
	}
	return e.Message, true
}

// need returns an error unless the user has one of the scopes. The APIs decide the same; this
// avoids pages that only show an error.
func need(s *page.Session, scopes ...string) error {
	if s.Has(scopes...) {
		return nil
	}
	return fault.New(fault.Forbidden, "You need the scope %s.", strings.Join(scopes, " or "))
}
