package notifications

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/pattern"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifyAlone is about the flags of the command without a subcommand, which are not the
// client's.
const notifyAlone = "Without COMMAND and with --auth-url, 'ingot notifications' runs the notification service alone."

// notifications register

type registerFlags struct {
	notifyFlags
	Source      string `long:"source" value-name:"TEXT" description:"Display name of the sender"`
	Description string `long:"description" value-name:"TEXT" description:"Description shown to recipients"`
	Critical    bool   `long:"critical" description:"Critical: users cannot unsubscribe"`
	Template    string `long:"template" value-name:"ID" description:"Template id"`
}

type kindRow struct {
	Client      string `json:"client"`
	Source      string `json:"source"`
	Kind        string `json:"kind"`
	Description string `json:"description"`
	Critical    bool   `json:"critical"`
	Template    string `json:"template"`
}

type registered struct {
	Client string `json:"client"`
	Kind   string `json:"kind"`
}

func (*registered) Show(*term.Printer) {}

func registerKind(ctx context.Context, s *core.Session, w core.Words, f *registerFlags) (core.Result, error) {
	id, err := f.clientID(ctx, s)
	if err != nil {
		return nil, err
	}
	s.Say("Registering kind %s for client %s...", s.Out.Bold(w["KIND"]), s.Out.Bold(id))
	// Registering replaces all kinds of a client, so existing kinds are sent too.
	kinds, source := map[string]any{}, f.Source
	var all map[string]registeredClient
	err = f.call(ctx, s, http.MethodGet, "/notifications", nil, &all)
	if err != nil && client.Status(err) != http.StatusForbidden {
		return nil, err
	}
	own := all[id]
	for kind, n := range own.Notifications {
		kinds[kind] = map[string]any{"description": n.Description, "critical": n.Critical}
	}
	kinds[w["KIND"]] = map[string]any{"description": cmp.Or(f.Description, w["KIND"]), "critical": f.Critical}
	body := map[string]any{"source_name": cmp.Or(cmp.Or(source, own.Name), id), "notifications": kinds}
	if err := f.call(ctx, s, http.MethodPut, "/notifications", body, nil); err != nil {
		return nil, err
	}
	if f.Template != "" {
		if err := f.assign(ctx, s, id, w["KIND"], f.Template); err != nil {
			return nil, err
		}
	}
	s.OK()
	return &registered{id, w["KIND"]}, nil
}

// assign gives a kind a template.
func (f *notifyFlags) assign(ctx context.Context, s *core.Session, owner, kind, template string) error {
	path := "/clients/" + url.PathEscape(owner) + "/notifications/" + url.PathEscape(kind) + "/template"
	return f.call(ctx, s, http.MethodPut, path, map[string]string{"template": template}, nil)
}

type registeredClient struct {
	Name          string `json:"name"`
	Template      string `json:"template"`
	Notifications map[string]struct {
		Description string `json:"description"`
		Template    string `json:"template"`
		Critical    bool   `json:"critical"`
	} `json:"notifications"`
}

// notifications kinds

func listKinds(ctx context.Context, s *core.Session, _ core.Words, f *notifyFlags) (core.Result, error) {
	s.Say("Getting notification kinds...")
	var all map[string]registeredClient
	if err := f.call(ctx, s, http.MethodGet, "/notifications", nil, &all); err != nil {
		return nil, err
	}
	list := &core.Listing[kindRow]{
		Key: "kinds", None: "No notification kinds found.", Paint: core.Plain,
		Heading: []string{"client", "kind", "description", "critical", "template"},
		Cells: func(k kindRow) []string {
			return []string{k.Client, k.Kind, k.Description, strconv.FormatBool(k.Critical), k.Template}
		},
	}
	for _, id := range core.SortedKeys(all) {
		for _, kind := range core.SortedKeys(all[id].Notifications) {
			n := all[id].Notifications[kind]
			list.Rows = append(list.Rows, kindRow{id, all[id].Name, kind, n.Description, n.Critical,
				used(n.Template, all[id].Template)})
		}
	}
	return list, nil
}

// defaultTemplate is the id of the template of kinds and clients without their own.
const defaultTemplate = "default"

// used returns the template that messages of a kind get: the kind's, or the
// client's, or the default.
func used(kind, client string) string {
	if kind != "" && kind != defaultTemplate {
		return kind
	}
	return cmp.Or(client, defaultTemplate)
}

// contentOf returns a text, or the content of the file named by @FILE.
func contentOf(s *core.Session, value string) (string, error) {
	file, ok := strings.CutPrefix(value, "@")
	if !ok {
		return value, nil
	}
	b, err := os.ReadFile(s.Env.Path(file))
	return string(b), err
}

// notifications send

type sendFlags struct {
	messageFlags
	timeFlags
	Attach []string `long:"attach" value-name:"FILE" description:"Attach a file"`
	Event  string   `long:"event" value-name:"JSON|@FILE" description:"Invite to an event, or cancel one"`
	Inline []string `long:"inline" value-name:"NAME=FILE" description:"Image that the HTML shows with <img src=\"cid:NAME\">"`
}

// messageFlags are what is sent to whom.
type messageFlags struct {
	notifyFlags
	Everyone bool   `long:"everyone" description:"To all users"`
	User     string `long:"user" value-name:"NAME|GUID" description:"To one user"`
	Space    string `long:"space" value-name:"NAME|GUID" description:"To the users of a space; a name is looked up in the targeted org"`
	Org      string `long:"org" value-name:"NAME|GUID" description:"To the users of an org"`
	Role     string `long:"role" value-name:"ROLE" description:"With --org: only OrgManager, OrgAuditor or BillingManager"`
	Scope    string `long:"scope" value-name:"SCOPE" description:"To users with a scope"`
	Topic    string `long:"topic" value-name:"NAME" description:"To the subscribers of a topic"`
	Email    string `long:"email" value-name:"ADDRESS" description:"To an e-mail address"`
	Subject  string `long:"subject" value-name:"TEXT" description:"Subject"`
	Text     string `long:"text" value-name:"TEXT" description:"Text, or @FILE"`
	HTML     string `long:"html" value-name:"HTML" description:"HTML, or @FILE"`
	ReplyTo  string `long:"reply-to" value-name:"ADDRESS" description:"Reply-To address"`
	Thread   string `long:"thread" value-name:"KEY" description:"Show mail with the same key as one conversation"`
}

type receipt struct {
	Status    string `json:"status"`
	Recipient string `json:"recipient"`
	ID        string `json:"notification_id"`
}

func sendNotification(ctx context.Context, s *core.Session, w core.Words, f *sendFlags) (core.Result, error) {
	to, err := f.to(ctx, s)
	if err != nil {
		return nil, err
	}
	body, err := f.content(s, w["KIND"])
	if err != nil {
		return nil, err
	}
	if err := f.invite(s, body); err != nil {
		return nil, err
	}
	s.Say("Sending %s...", s.Out.Bold(w["KIND"]))
	if err := f.attach(ctx, s, body); err != nil {
		return nil, err
	}
	if f.timeFlags != (timeFlags{}) || body["event"] != nil || body["attachments"] != nil || body["thread"] != nil ||
		to.path == "" {
		return f.sendTimed(ctx, s, body, to)
	}
	if f.Email != "" {
		body["to"] = f.Email
	}
	if f.Role != "" {
		body["role"] = f.Role
	}
	out := &core.Listing[receipt]{
		Key: "sent", None: "No recipients.", Heading: []string{"recipient", "status", "notification"},
		Paint: []core.Paint{nil, core.State},
		Cells: func(r receipt) []string { return []string{r.Recipient, r.Status, r.ID} },
	}
	if err := f.call(ctx, s, http.MethodPost, to.path+url.PathEscape(to.id), body, &out.Rows); err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}

// invite adds the event to the body of a send.
func (f *sendFlags) invite(s *core.Session, body map[string]any) error {
	if f.Event == "" {
		return nil
	}
	text, err := contentOf(s, f.Event)
	if err != nil {
		return err
	}
	if !json.Valid([]byte(text)) {
		return core.UsageError("--event must be a JSON object, or @FILE with one")
	}
	body["event"] = json.RawMessage(text)
	return nil
}

// content returns the body of a send, without whom it is sent to.
func (f *messageFlags) content(s *core.Session, kind string) (body map[string]any, err error) {
	body = map[string]any{"kind_id": kind}
	for key, value := range map[string]string{"subject": f.Subject, "text": f.Text, "html": f.HTML,
		"reply_to": f.ReplyTo, "thread": f.Thread} {
		if value == "" {
			continue
		}
		if body[key], err = contentOf(s, value); err != nil {
			return nil, err
		}
	}
	if body["text"] == nil && body["html"] == nil {
		return nil, core.UsageError("--text or --html is required")
	}
	return body, nil
}

// audience is whom to send to: the path of version 1 of the API, if it has one, and the type of an audience.
type audience struct{ path, kind, id string }

// to returns the recipients.
func (f *messageFlags) to(ctx context.Context, s *core.Session) (audience, error) {
	var all []audience
	if f.Everyone {
		all = append(all, audience{"/everyone", "everyone", ""})
	}
	if f.Email != "" {
		all = append(all, audience{"/emails", "email", ""})
	}
	if f.Scope != "" {
		all = append(all, audience{"/uaa_scopes/", "scope", f.Scope})
	}
	if f.Topic != "" {
		all = append(all, audience{"", "topic", f.Topic}) // version 1 has none
	}
	for _, to := range []struct{ name, at, kind, audience string }{
		{f.User, "/users/", "user", "user"}, {f.Space, "/spaces/", "space", "space"},
		{f.Org, "/organizations/", "org", "organization"},
	} {
		if to.name == "" {
			continue
		}
		guid, err := recipientOf(ctx, s, to.kind, to.name)
		if err != nil {
			return audience{}, err
		}
		all = append(all, audience{to.at, to.audience, guid})
	}
	if len(all) != 1 {
		return audience{}, core.UsageError(
			"exactly one of --everyone, --user, --space, --org, --scope, --topic, --email is required")
	}
	return all[0], nil
}

var guidForm = pattern.OnUse(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// recipientOf returns the guid of a user, an org or a space. A space is looked up
// in the targeted org, if any.
func recipientOf(ctx context.Context, s *core.Session, kind, name string) (string, error) {
	if guidForm().MatchString(name) {
		return name, nil
	}
	if err := s.Check(core.NeedsLogin); err != nil {
		return "", err
	}
	var found []cfapi.Thing
	var err error
	switch {
	case kind == "org":
		org, err := s.Org(ctx, name)
		return org.GUID, err
	case kind == "space" && s.Config.Org.GUID != "":
		space, err := s.Space(ctx, name)
		return space.GUID, err
	case kind == "space":
		found, err = client.List[cfapi.Thing](ctx, s.API, "/v3/spaces", url.Values{"names": {name}})
	default:
		found, err = client.List[cfapi.Thing](ctx, s.API, "/v3/users", url.Values{"usernames": {name}})
	}
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", &core.Problem{What: fmt.Sprintf("%s '%s' not found.", core.Title(kind), name),
			Try: "check the name, or pass the guid", Err: core.ErrNotFound}
	case len(found) > 1 && kind == "space":
		return "", &core.Problem{What: fmt.Sprintf("Several orgs have a space '%s'.", name),
			Try: fmt.Sprintf("'%s target -o ORG', or pass the guid", s.Env.Program)}
	case len(found) > 1:
		return "", &core.Problem{What: fmt.Sprintf("Several users are named '%s'.", name), Why: "they have different origins",
			Try: "pass the guid"}
	}
	return found[0].GUID, nil
}

// notifications status

type messageStatus struct {
	ID     string `json:"notification_id"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

func (m *messageStatus) Show(p *term.Printer) {
	text := p.State(m.Status)
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	p.Println(text)
}

func showStatus(ctx context.Context, s *core.Session, w core.Words, f *notifyFlags) (core.Result, error) {
	out := &messageStatus{ID: w["NOTIFICATION"]}
	// The list says more than the message: why, and whether the user unsubscribed.
	// Services other than Ingot's do not have it.
	var found struct{ Messages []messageStatus }
	err := f.call(ctx, s, http.MethodGet, "/messages?id="+url.QueryEscape(w["NOTIFICATION"]), nil, &found)
	if err == nil && len(found.Messages) == 1 {
		out.Status, out.Reason = found.Messages[0].Status, found.Messages[0].Reason
		return out, nil
	}
	if err := f.call(ctx, s, http.MethodGet, "/messages/"+url.PathEscape(w["NOTIFICATION"]), nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return core.InGroup(core.GroupOther, core.Entry("notifications", "", "Register, send and track notifications",
		core.NeedsNothing, listKinds).Explained(notifyAlone).With(slices.Concat(definitions(), messages(), []*core.Command{
		core.Entry("notifications check-domain", "", "Check the DNS records of the sender's mail domain",
			core.NeedsAPI, checkDomain, ""),
		core.Entry("notifications mail-state", "", "Show mail servers, and domains that get less mail", core.NeedsAPI,
			showMailState, ""),
		core.Entry("notifications usage", "", "Show how much a client has stored", core.NeedsAPI, showUsage,
			"--client shop"),
		core.Entry("notifications preferences", "", "Show or change your subscriptions", core.NeedsAPI, changePreferences,
			"", "--unsubscribe my-sender/disk-full", "--off my-sender/news/email --on my-sender/news/inbox",
			"--join my-sender/releases", "--leave my-sender/releases",
			"--user mailto:dora@example.org --unsubscribe all"),
		core.Entry("notifications browsers", "", "List or remove your browsers and devices for push", core.NeedsAPI,
			changeBrowsers, "", "--remove 5d41402abc4b2a76", "--key"),
	})...))
}

// definitions are the commands for what is sent, and to send it.
func definitions() []*core.Command {
	return []*core.Command{
		core.Entry("notifications register", "KIND", "Register a notification kind", core.NeedsAPI, registerKind,
			"disk-full --source 'Disk watch' --description 'A disk is nearly full'"),
		core.Entry("notifications kinds", "", "List notification kinds", core.NeedsAPI, listKinds, ""),
		core.Entry("notifications channels", "KIND", "Show or set how a kind's notifications reach users", core.NeedsAPI,
			changeChannels, "disk-full", "disk-full --set email,inbox"),
		core.Entry("notifications workflow", "KIND", "Show or set the steps of a kind's notifications", core.NeedsAPI,
			changeWorkflow, "disk-full", "disk-full --set @workflow.json", "disk-full --delete"),
		core.Entry("notifications digest", "KIND", "Show or set how a kind's notifications are collected", core.NeedsAPI,
			changeDigest, "comments", "comments --window 1h --max 50 --key thread.id", "comments --delete"),
		core.Entry("notifications throttle", "KIND", "Show or limit how many of a kind a recipient gets", core.NeedsAPI,
			changeThrottle, "comments", "comments --limit 3 --window 1h", "comments --delete"),
		core.Entry("notifications retention", "KIND", "Show or set how long a kind's messages are kept", core.NeedsAPI,
			changeRetention, "comments", "comments --keep 90d", "comments --delete"),
		core.Entry("notifications tracking", "KIND", "Show or set whether opens and clicks are counted", core.NeedsAPI,
			changeTracking, "comments", "comments --opens --clicks", "comments --delete"),
		core.Entry("notifications destinations", "", "Show or set where a client's chat and webhook messages go",
			core.NeedsAPI, changeDestinations, "", "--set chat --to @slack-address --format slack",
			"--set webhook --to https://app.example.com/notifications", "--delete chat"),
		core.Entry("notifications providers", "", "Show or declare services that deliver texts or push messages",
			core.NeedsAPI, changeProviders, "", "--set gateway --definition @gateway.json --secret token=@token.txt",
			"--set ntfy --channel push --definition @ntfy.json", "--show gateway", "--delete gateway"),
		core.Entry("notifications inbox-token", "USER", "Issue a token for a user's in-app inbox", core.NeedsAPI,
			createInboxToken, "4f1c2a7e-0c1d-4e53-9d1c-0c6a1f7f0d11 --valid 10m"),
		core.Entry("notifications inbox-origins", "", "Show or set the web sites that may read inboxes", core.NeedsAPI,
			changeOrigins, "", "--set https://app.example.com"),
		core.Entry("notifications templates", "", "List, change and assign templates", core.NeedsAPI, changeTemplates,
			"", "--create plain --text @mail.txt --html @mail.html --assign disk-full",
			"--id ca9a22b9", "--id ca9a22b9 --text @mail.txt", "--delete ca9a22b9"),
		core.Entry("notifications variants", "TEMPLATE", "Show or change a template's texts by language", core.NeedsAPI,
			changeVariants, "ca9a22b9 --set de --subject 'Bestellung' --text @mail.de.txt", "ca9a22b9 --delete de"),
		core.Entry("notifications versions", "TEMPLATE", "List, compare or restore versions of a template", core.NeedsAPI,
			changeVersions, "ca9a22b9", "ca9a22b9 --diff 3", "ca9a22b9 --rollback 2"),
		core.Entry("notifications partials", "", "List or change texts that templates share", core.NeedsAPI,
			changePartials, "", "--show footer", "--set footer --text @footer.txt --html @footer.html",
			"--set footer --locale de --text @footer.de.txt", "--delete footer"),
		core.Entry("notifications missing-variants", "", "List templates that lack languages", core.NeedsAPI, listMissing,
			"", "--locales de,fr"),
		core.Entry("notifications send", "KIND", "Send a notification", core.NeedsAPI, sendNotification,
			"disk-full --everyone --subject 'Disk full' --text 'Please tidy up'",
			"disk-full --space dev --text 'Please tidy up'",
			"maintenance --everyone --text 'In an hour' --at 2026-12-24T18:00:00+01:00",
			"news --topic releases --text 'Version 2 is there'",
			"invoice --email ann@example.com --html @mail.html --attach invoice.pdf --inline logo=logo.png"),
		core.Entry("notifications topics", "", "List or change topics and their subscribers", core.NeedsAPI, changeTopics,
			"", "--set releases --description 'New releases'", "--subscribe releases --user 4f1c2a7e --email dora@example.org",
			"--subscribers releases", "--delete releases"),
		core.Entry("notifications repeat", "NAME KIND", "Create or replace a recurring send", core.NeedsAPI, repeatSend,
			"weekly news --cron '0 9 * * mon' --zone Europe/Berlin --everyone --subject 'This week' --text @week.txt",
			"stand-up team --cron '45 8 * * mon-fri' --zone Europe/Berlin --space dev --text 'In 15 minutes' --ttl 15m"),
		core.Entry("notifications recurring", "", "List, show, pause or delete recurring sends", core.NeedsAPI,
			changeRecurring, "", "--show weekly", "--pause weekly", "--resume weekly", "--delete weekly"),
	}
}

// messages are the commands for what was sent.
func messages() []*core.Command {
	return []*core.Command{
		core.Entry("notifications cancel", "SEND", "Cancel what is not out yet of a send", core.NeedsAPI, cancelSend,
			"0b0c5f1e-7a8e-9d0f-3f5a-6b1c52d7e4a9"),
		core.Entry("notifications status", "NOTIFICATION", "Show a notification's delivery status",
			core.NeedsAPI, showStatus, "1b2c3d"),
		core.Entry("notifications timeline", "NOTIFICATION", "Show what became of a notification on all channels",
			core.NeedsAPI, showTimeline, "1b2c3d"),
		core.Entry("notifications messages", "", "List messages by recipient, kind, state or time", core.NeedsAPI,
			findMessages, "--email dora@example.org", "--kind news --channel inbox --status failed"),
		core.Entry("notifications retry", "NOTIFICATION", "Retry a failed notification", core.NeedsAPI,
			retryNotification, "1b2c3d"),
		core.Entry("notifications mailbox", "", "List, read or clear mail kept instead of sent", core.NeedsAPI,
			readMailbox, "", "--search dora", "--read 3", "--clear"),
		core.Entry("notifications suppressions", "", "List or change addresses that get no mail", core.NeedsAPI,
			changeSuppressions, "", "--add dora@example.org", "--remove dora@example.org"),
		core.Entry("notifications figures", "", "Show numbers of deliveries by kind, channel or domain", core.NeedsAPI,
			showFigures, "", "--by domain --kind news --hours 24", "--by template --days 90"),
		core.Entry("notifications recipient-data", "", "Show everything that is stored about a recipient", core.NeedsAPI,
			showRecipient, "--email dora@example.org", "--user 4f1c2a7e --all-clients"),
		core.Entry("notifications erase-recipient", "", "Erase what is stored about a recipient", core.NeedsAPI,
			eraseRecipient, "--user 4f1c2a7e --email dora@example.org"),
	}
}
