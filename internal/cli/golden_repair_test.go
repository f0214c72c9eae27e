package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"ingot/internal/cli/config"
)

// repairScenarios are about what went wrong with messages, and about templates.
var repairScenarios = []scenario{
	{"notifications-retry", []string{"notifications", "retry", "message-1"}},
	{"notifications-mailbox", []string{"notifications", "mailbox", "--search", "dora"}},
	{"notifications-mailbox-read", []string{"notifications", "mailbox", "--read", "2"}},
	{"notifications-mailbox-clear", []string{"notifications", "mailbox", "--clear", "-f"}},
	{"notifications-mailbox-both", []string{"notifications", "mailbox", "--clear", "--read", "2"}},
	{"notifications-suppressions", []string{"notifications", "suppressions"}},
	{"notifications-suppressions-add", []string{"notifications", "suppressions", "--add", "dora@example.org"}},
	{"notifications-suppressions-remove", []string{"notifications", "suppressions", "--remove", "dora@example.org"}},
	{"notifications-suppressions-both", []string{"notifications", "suppressions", "--add", "a@example.org", "--remove",
		"b@example.org"}},
	{"notifications-template", []string{"notifications", "templates", "--id", "template-1", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-template-change", []string{"notifications", "templates", "--id", "template-1", "--text", "@mail.txt",
		"--assign", "disk-full", "--client", "sender", "--client-secret", "x"}},
	{"notifications-template-delete", []string{"notifications", "templates", "--delete", "template-1", "--client",
		"sender", "--client-secret", "x"}},
	{"notifications-template-wrong", []string{"notifications", "templates", "--text", "x"}},
	{"notifications-template-wrong-delete", []string{"notifications", "templates", "--delete", "template-1",
		"--name", "x"}},
}

func init() { scenarios = append(scenarios, repairScenarios...) }

// repairAnswer is what the fake server answers to them; 0 to everything else.
func repairAnswer(r *http.Request) (int, any) {
	suppression := func(email string) object {
		return object{"email": email, "reason": "550 5.1.1 no such user", "source": "bounce", "created_at": stamp}
	}
	mail := object{"number": 2, "id": "message-1", "from": "no-reply@localhost", "to": "dora@example.org",
		"subject":  "Disk full",
		"received": stamp, "size": 512}
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, "/notify") {
	case "GET /templates":
		return 200, object{"template-1": object{"name": "plain"}}
	case "POST /templates":
		return 201, object{"template_id": "template-2"}
	case "GET /templates/template-1":
		return 200, object{"name": "plain", "subject": "Re: {{.Subject}}", "text": "{{.Text}}", "html": "<p>{{.HTML}}</p>",
			"metadata": object{"team": "ops"}}
	case "PUT /templates/template-1", "DELETE /templates/template-1", "PUT /suppressions/dora@example.org",
		"DELETE /suppressions/dora@example.org":
		return 204, nil
	case "GET /mailbox/messages":
		return 200, object{"total": 1, "messages": []any{mail}}
	case "GET /mailbox/messages/2":
		mail["text"], mail["html"], mail["headers"] = "Please tidy up", "<p>Please tidy up</p>", []any{}
		return 200, mail
	case "DELETE /mailbox/messages":
		return 204, nil
	case "POST /messages/message-1/replay":
		return 202, object{"status": "queued"}
	case "GET /suppressions":
		if r.URL.Query().Get("after") == "" {
			return 200, object{"suppressions": []any{suppression("dora@example.org")},
				"_links": object{"next": object{"href": "/suppressions?after=x"}}}
		}
		return 200, object{"suppressions": []any{suppression("emil@example.org")}, "_links": object{}}
	}
	return 0, nil
}

// Changing one text of a template keeps the others, and its metadata.
func TestTemplateChange(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.ok(t, "notifications", "templates", "--id", "template-1", "--name", "new", "--text", "same", "--html", "same",
		"--client", "sender", "--client-secret", "x")
	for _, want := range []string{`"name":"new"`, `"subject":"Re: {{.Subject}}"`, `"text":"same"`, `"html":"same"`,
		`"metadata":{"team":"ops"}`} {
		if !w.api.body("PUT /notify/templates/template-1", want) {
			t.Errorf("the template was replaced without %s", want)
		}
	}
}

// Commands that concern all clients act as the logged-in user on the server's own machine, too, where the others act as
// a client that was made for them, and which lacks the scope.
func TestAdministers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		call string
		args []string
	}{
		{"GET /notify/mail_state", []string{"mail-state"}},
		{"GET /notify/suppressions", []string{"suppressions"}},
		{"PUT /notify/suppressions/dora@example.org", []string{"suppressions", "--add", "dora@example.org"}},
		{"DELETE /notify/suppressions/dora@example.org", []string{"suppressions", "--remove", "dora@example.org"}},
		{"POST /notify/messages/message-1/replay", []string{"retry", "message-1"}},
		{"GET /notify/mailbox/messages", []string{"mailbox"}},
		{"GET /notify/mailbox/messages/2", []string{"mailbox", "--read", "2"}},
		{"DELETE /notify/mailbox/messages", []string{"mailbox", "--clear", "-f"}},
		{"GET /notify/figures", []string{"figures", "--all-clients"}},
		{"GET /notify/messages", []string{"messages", "--all-clients"}},
		{"GET /notify/recipient_data", []string{"recipient-data", "--user", "user-guid", "--all-clients"}},
		{"POST /notify/erasures", []string{"erase-recipient", "--user", "user-guid", "--all-clients", "-f"}},
		{"DELETE /notify/partials/footer", []string{"partials", "--delete", "footer", "--shared"}},
	} {
		for name, client := range map[string][]string{"user": nil, "client": {"--client", "sender", "--client-secret", "x"}} {
			t.Run(strings.Join(test.args, " ")+" as "+name, func(t *testing.T) {
				t.Parallel()
				w := loggedIn(t)
				w.change(t, func(c *config.Config) {
					c.Notifications = config.Notifications{Client: "ingot-cli", Secret: "x", API: c.API}
				})
				w.api.instead[test.call] = func(*http.Request) (int, any) {
					return 403, object{"errors": []string{"You are not authorized to perform the requested action"}}
				}
				w.fails(t, "a user with the scope notifications.admin", append(append([]string{"notifications"}, test.args...),
					client...)...)
				if acted := w.api.body("POST /oauth/token", "client_credentials"); acted != (client != nil) {
					t.Errorf("it acted as a client: %t", acted)
				}
			})
		}
	}
}
